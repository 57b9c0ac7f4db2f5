//! What all formats of compression share.

/// Bytes that come out between two looks at the clock.
pub(super) const PIECE: usize = 64 << 10;

/// Why bytes cannot be read.
pub(super) enum Wrong {
    /// As zlib words it.
    Data(String),
    /// The number of Brotli's error.
    Brotli(i32),
    /// The text ends too early.
    End,
    TooLong,
}
