//! The node host's own output, standard output and error alike, as lines of our log.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::{Duration, sleep};

/// Bytes of a line that are logged. Our choice: a stack.
const MAX_LINE: usize = 4096;

/// Lines that are logged at once, and the pause after them: a host that writes without end waits, and slows down by
/// itself. Our choice: a thousand lines a second.
const LINES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Logs the output until it ends.
pub(super) async fn log(output: impl AsyncRead + Unpin) {
    let mut reader = BufReader::with_capacity(MAX_LINE, output);
    let mut lines = 0;
    loop {
        let Ok(buffer) = reader.fill_buf().await else {
            return;
        };
        if buffer.is_empty() {
            return;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let line = buffer.get(..end.unwrap_or(buffer.len()));
        let text = String::from_utf8_lossy(line.unwrap_or_default());
        if !text.trim().is_empty() {
            tracing::info!(target: "node_host", "{}", text.trim_end());
        }
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        lines += 1;
        if lines % LINES == 0 {
            sleep(PAUSE).await;
        }
    }
}
