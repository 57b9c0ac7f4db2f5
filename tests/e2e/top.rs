//! `flowgate top` on a terminal: its pages by keys, its order, a change of the size, and every end
//! of it leaves the terminal as it was.

use crate::harness::{Gateway, TEST_TIMEOUT};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Opens and leaves the alternate screen (xterm control sequences, mode 1049).
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// `flowgate top` on a terminal of 100 columns and 20 lines, which `script` makes.
struct Top {
    child: Child,
    /// What the terminal was sent.
    shown: PathBuf,
    directory: PathBuf,
}

impl Top {
    fn start(directory: &Path) -> Self {
        let program = env!("CARGO_BIN_EXE_flowgate");
        let top = format!(
            "stty cols 100 rows 20; tty > tty; echo $$ > pid; exec {program} top --interval 1s"
        );
        let shown = directory.join("shown");
        let child = Command::new("script")
            .current_dir(directory)
            .args(["--quiet", "--return", "--flush", "--command", &top])
            .arg(&shown)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let directory = directory.to_owned();
        Self {
            child,
            shown,
            directory,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.shown).unwrap_or_default()).into_owned()
    }

    /// Waits until the terminal was sent this, one time more than `before`.
    fn wait_for(&self, words: &str, before: usize) {
        let since = Instant::now();
        while self.shown().matches(words).count() <= before {
            assert!(
                since.elapsed() < TEST_TIMEOUT,
                "no {words}: {:?}",
                self.shown()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn type_in(&mut self, keys: &str) {
        use std::io::Write as _;
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    fn file(&self, name: &str) -> String {
        let text = fs::read_to_string(self.directory.join(name)).unwrap();
        text.trim().to_owned()
    }

    /// Waits for its end; the terminal must be as before. Answers what follows on the ordinary
    /// screen.
    fn end(mut self) -> (ExitStatus, String) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                since.elapsed() < TEST_TIMEOUT,
                "it goes on: {:?}",
                self.shown()
            );
            thread::sleep(Duration::from_millis(5));
        };
        let shown = self.shown();
        let (screen, after) = shown.rsplit_once(LEAVE).expect(&shown);
        assert!(screen.contains(ENTER), "{shown:?}");
        let cursor = ["\u{1b}[?25l", "\u{1b}[?25h"].map(|mode| shown.rfind(mode));
        assert!(cursor[0] < cursor[1], "the cursor stays hidden: {shown:?}");
        (status, after.to_owned())
    }
}

/// Runs a test of what blocks beside the gateway.
async fn beside<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(test).await.unwrap()
}

#[tokio::test]
async fn keys_turn_the_pages_and_q_ends_it() {
    let gateway = Gateway::start();
    gateway.sign_in("reader").await;
    let directory = gateway.directory.path().to_owned();
    let (status, after) = beside(move || {
        let mut top = Top::start(&directory);
        top.wait_for("requests/s,", 0);
        // The sign-in was before the first measurement, and counts in the total.
        top.wait_for("auth", 0);
        top.type_in("2");
        top.wait_for("busy,", 0);
        top.type_in("3");
        top.wait_for("reader", 0);
        top.type_in("sS\u{1b}[B\u{1b}[Aq");
        top.end()
    })
    .await;
    assert_eq!(
        (status.code(), after.contains("flowgate:")),
        (Some(0), false),
        "{after:?}"
    );
}

#[tokio::test]
async fn it_is_drawn_again_when_the_terminal_changes_its_size() {
    let gateway = Gateway::start();
    let directory = gateway.directory.path().to_owned();
    let (status, _) = beside(move || {
        let mut top = Top::start(&directory);
        top.wait_for("scroll", 0);
        let mut resize = Command::new("stty");
        resize.args(["-F", &top.file("tty"), "cols", "60", "rows", "10"]);
        assert!(resize.status().unwrap().success());
        top.wait_for("scroll", 1);
        // Control-C, which is a key while the view is open.
        top.type_in("\u{3}");
        top.end()
    })
    .await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_signal_leaves_the_terminal_as_it_was() {
    let gateway = Gateway::start();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let directory = gateway.directory.path().to_owned();
        let (status, _) = beside(move || {
            let top = Top::start(&directory);
            top.wait_for("scroll", 0);
            let killed = Command::new("kill")
                .args([signal, &top.file("pid")])
                .status();
            assert!(killed.unwrap().success());
            let ended = top.end();
            fs::remove_file(directory.join("shown")).unwrap();
            ended
        })
        .await;
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}

#[tokio::test]
async fn it_ends_with_the_reason_when_the_gateway_has_gone() {
    let gateway = Gateway::start();
    let directory = gateway.directory.path().to_owned();
    let top = beside(move || {
        let top = Top::start(&directory);
        top.wait_for("scroll", 0);
        top
    })
    .await;
    let directory = gateway.stop().await;
    let (status, after) = beside(move || top.end()).await;
    assert_eq!(status.code(), Some(1));
    assert!(
        after.contains("no flowgate runs on this data directory"),
        "{after:?}"
    );
    drop(directory);
}
