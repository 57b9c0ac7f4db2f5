//! A file as the body of an answer: read piece by piece on a thread that may wait for the disk, as fast as the client
//! takes it. However large the file, one piece of it is in memory.

use bytes::Bytes;
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Bytes of a piece: what a connection sends at once.
const PIECE: u64 = 64 * 1024;

/// A file being read.
#[derive(Debug)]
pub struct Reading {
    state: State,
    left: u64,
    control: Handle,
}

#[derive(Debug)]
enum State {
    Waiting(File),
    Reading(JoinHandle<io::Result<(File, Bytes)>>),
    Over,
}

impl Reading {
    /// The first `size` bytes of a file.
    pub(super) fn new(file: File, size: u64, control: Handle) -> Self {
        Self {
            state: State::Waiting(file),
            left: size,
            control,
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
                State::Waiting(file) if self.left > 0 => {
                    let length = self.left.min(PIECE);
                    let task = self.control.spawn_blocking(move || read(file, length));
                    self.state = State::Reading(task);
                }
                State::Reading(mut task) => {
                    let Poll::Ready(read) = Pin::new(&mut task).poll(cx) else {
                        self.state = State::Reading(task);
                        return Poll::Pending;
                    };
                    let read = read.unwrap_or_else(|lost| Err(io::Error::other(lost)));
                    return Poll::Ready(Some(read.map(|(file, piece)| {
                        self.left -= piece.len() as u64;
                        self.state = State::Waiting(file);
                        piece
                    })));
                }
                State::Waiting(_) | State::Over => return Poll::Ready(None),
            }
        }
    }
}

/// The next bytes of a file, at least one.
fn read(mut file: File, length: u64) -> io::Result<(File, Bytes)> {
    let mut piece = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    if (&mut file).take(length).read_to_end(&mut piece)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((file, piece.into()))
}
