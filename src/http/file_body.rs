//! Files as the body of an answer: parts of the editor, and the audit log. They are read piece by
//! piece on a thread that may wait for the disk, as fast as the client takes them; or a text.
//! However large they are, one piece is in memory.
//!
//! A limited number is answered at a time: each keeps its place until its last piece has been sent.

use super::pieces::charged;
#[cfg(feature = "engine")]
use super::pieces::piece;
use crate::audit::Section;
use bytes::Bytes;
use limits::quota::Grant;
use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The size in bytes of a piece, which a connection sends at once.
const PIECE: u64 = 64 * 1024;

/// Files or a text on their way.
#[derive(Debug)]
pub(super) struct Reading {
    state: State,
    left: u64,
    permit: Arc<Grant>,
}

#[derive(Debug)]
enum State {
    #[cfg(feature = "engine")]
    Text(Bytes),
    Waiting(Files, Handle),
    Reading(JoinHandle<io::Result<(Files, Bytes)>>, Handle),
    Over,
}

/// The open file with the bytes that are left of it, and the sections after it.
#[derive(Debug)]
struct Files {
    open: Option<(File, u64)>,
    sections: VecDeque<Section>,
}

impl Reading {
    /// The first `size` bytes of a file.
    #[cfg(feature = "engine")]
    pub(super) fn file(file: File, size: u64, control: Handle, permit: Arc<Grant>) -> Self {
        let files = Files {
            open: Some((file, size)),
            sections: VecDeque::new(),
        };
        Self {
            state: State::Waiting(files, control),
            left: size,
            permit,
        }
    }

    /// Sections of files, one after the other.
    pub(super) fn sections(sections: Vec<Section>, control: Handle, permit: Arc<Grant>) -> Self {
        let left = sections.iter().map(|section| section.length).sum();
        let files = Files {
            open: None,
            sections: sections.into(),
        };
        Self {
            state: State::Waiting(files, control),
            left,
            permit,
        }
    }

    /// A text.
    #[cfg(feature = "engine")]
    pub(super) fn text(text: Bytes, permit: Arc<Grant>) -> Self {
        Self {
            left: text.len() as u64,
            state: State::Text(text),
            permit,
        }
    }

    /// Bytes that were not given out yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` after the last one.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                #[cfg(feature = "engine")]
                State::Text(mut text) if self.left > 0 => {
                    let piece = piece(&mut text);
                    self.left -= piece.len() as u64;
                    self.state = State::Text(text);
                    return Poll::Ready(Some(Ok(charged(piece, &self.permit))));
                }
                State::Waiting(files, control) if self.left > 0 => {
                    let length = self.left.min(PIECE);
                    let task = control.spawn_blocking(move || files.read(length));
                    self.state = State::Reading(task, control);
                }
                State::Reading(mut task, control) => {
                    let Poll::Ready(read) = Pin::new(&mut task).poll(cx) else {
                        self.state = State::Reading(task, control);
                        return Poll::Pending;
                    };
                    let read = read.unwrap_or_else(|lost| Err(io::Error::other(lost)));
                    return Poll::Ready(Some(read.map(|(files, piece)| {
                        self.left -= piece.len() as u64;
                        self.state = State::Waiting(files, control);
                        charged(piece, &self.permit)
                    })));
                }
                _ => return Poll::Ready(None),
            }
        }
    }
}

impl Files {
    /// The next bytes, of one or more files, at least one.
    fn read(mut self, length: u64) -> io::Result<(Self, Bytes)> {
        let mut piece = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        while (piece.len() as u64) < length {
            let Some((file, left)) = self.open.as_mut().filter(|(_, left)| *left > 0) else {
                let section = self.sections.pop_front().ok_or(ErrorKind::UnexpectedEof)?;
                let left = section.length;
                self.open = Some((section.open()?, left));
                continue;
            };
            let wanted = (*left).min(length - piece.len() as u64);
            let read = file.take(wanted).read_to_end(&mut piece)? as u64;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            *left -= read;
        }
        Ok((self, piece.into()))
    }
}

#[cfg(all(test, feature = "engine"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use limits::quota::Quota;
    use std::future::poll_fn;
    use std::io::{Seek, Write};

    async fn pieces(mut reading: Reading) -> io::Result<Vec<Bytes>> {
        let mut pieces = Vec::new();
        while let Some(piece) = poll_fn(|cx| reading.poll_piece(cx)).await {
            pieces.push(piece?);
        }
        Ok(pieces)
    }

    /// The only place.
    fn permit() -> (Arc<Quota>, Arc<Grant>) {
        let places = Quota::new(1, 1);
        let mut permit = places.grant([127, 0, 0, 1].into());
        permit.try_grow(1).unwrap();
        (places, Arc::new(permit))
    }

    fn is_free(places: &Arc<Quota>) -> bool {
        places.grant([127, 0, 0, 2].into()).try_grow(1).is_ok()
    }

    fn file(size: u64, said: u64, permit: Arc<Grant>) -> Reading {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..=255)
            .cycle()
            .take(usize::try_from(size).unwrap())
            .collect();
        file.write_all(&content).unwrap();
        file.rewind().unwrap();
        Reading::file(file, said, Handle::current(), permit)
    }

    #[tokio::test]
    async fn a_file_is_sent_in_chunks_and_its_permit_released_afterwards() {
        let (places, permit) = permit();
        let reading = file(150_000, 150_000, permit);
        assert_eq!((reading.left(), is_free(&places)), (150_000, false));
        let pieces = pieces(reading).await.unwrap();
        let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [65_536, 65_536, 18_928]);
        assert_eq!(
            pieces.concat()[149_999],
            u8::try_from(149_999 % 256).unwrap()
        );
        assert!(!is_free(&places));
        drop(pieces);
        assert!(is_free(&places));
    }

    #[tokio::test]
    async fn a_truncated_file_aborts_the_body() {
        assert!(pieces(file(1000, 2000, permit().1)).await.is_err());
    }

    #[tokio::test]
    async fn a_text_is_sent_unchanged() {
        let reading = Reading::text(Bytes::from_static(b"words"), permit().1);
        assert_eq!(pieces(reading).await.unwrap(), ["words"]);
    }
}
