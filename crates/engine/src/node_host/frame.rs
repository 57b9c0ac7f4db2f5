//! Frames between the engine and the node host: the lengths of the JSON and of the attachments (32
//! bits each, little endian), then both.

use bytes::Bytes;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};
use value::Failure;

/// Bytes of the two lengths.
const HEAD: usize = 8;

/// Bytes of one frame; `host/channel.js` has the same limit. Our choice: a photograph or a day of
/// measurements, and no sum that a few of them make exceeds the memory of a small machine.
pub(super) const MAX_FRAME: usize = 64 << 20;

/// A frame from the node host.
pub(super) struct Frame {
    /// Its JSON.
    pub json: String,
    /// The bytes of its buffers.
    pub attachments: Bytes,
}

impl Frame {
    /// Its size on the socket.
    pub(super) fn size(&self) -> usize {
        HEAD + self.json.len() + self.attachments.len()
    }
}

/// The bytes of a frame. Fails if it is too large.
pub(super) fn encode(json: &str, attachments: &[u8]) -> Result<Bytes, Failure> {
    let length = json.len() + attachments.len();
    if length > MAX_FRAME {
        let text = format!("the message is larger than {MAX_FRAME} bytes");
        return Err(Failure::error(text));
    }
    let mut frame = Vec::with_capacity(HEAD + length);
    for part in [json.len(), attachments.len()] {
        // At most `MAX_FRAME`.
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        frame.extend_from_slice(&part.to_le_bytes());
    }
    frame.extend_from_slice(json.as_bytes());
    frame.extend_from_slice(attachments);
    Ok(frame.into())
}

/// Reads a frame; `None` at the end. An error: what came is no frame.
pub(super) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let json = match reader.read_u32_le().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let attachments = reader.read_u32_le().await? as usize;
    if json.saturating_add(attachments) > MAX_FRAME {
        return Err(io::Error::other("a frame is larger than it may be"));
    }
    let mut text = vec![0; json];
    reader.read_exact(&mut text).await?;
    let mut bytes = vec![0; attachments];
    reader.read_exact(&mut bytes).await?;
    Ok(Some(Frame {
        json: String::from_utf8(text).map_err(io::Error::other)?,
        attachments: bytes.into(),
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_is_read_as_it_was_written() {
        let bytes = encode("{\"t\":\"ping\"}", b"\0\xff").unwrap();
        let mut twice: &[u8] = &[&bytes[..], &bytes[..]].concat();
        for _ in 0..2 {
            let frame = read(&mut twice).await.unwrap().unwrap();
            assert_eq!(frame.json, "{\"t\":\"ping\"}");
            assert_eq!(&frame.attachments[..], b"\0\xff");
            assert_eq!(frame.size(), bytes.len());
        }
        assert!(read(&mut twice).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_frame_that_is_too_large_is_refused_before_it_is_read() {
        assert!(encode("{}", &vec![0; MAX_FRAME]).is_err());
        let mut head: &[u8] = &[0xff; HEAD];
        assert!(read(&mut head).await.is_err());
        let mut cut: &[u8] = &encode("{}", b"abc").unwrap()[..9];
        assert!(read(&mut cut).await.is_err());
    }
}
