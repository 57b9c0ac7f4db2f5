//! Brotli (RFC 7932) for `zlib.rs`: the crate's states, piece by piece.

use super::compression::{PIECE, Wrong};
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::Status;

/// A text on its way into Brotli.
pub(super) struct Encoder(Box<BrotliEncoderStateStruct<StandardAlloc>>);

impl Encoder {
    /// `parameters`: by Node.js' numbers. Those for larger blocks (a step would take too long), for
    /// windows beyond 16 MiB and for the coding of distances do not count.
    pub(super) fn new(parameters: &[(u32, u32)]) -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        for (parameter, value) in parameters {
            let parameter = match parameter {
                0 if *value < 3 => BrotliEncoderParameter::BROTLI_PARAM_MODE,
                1 => BrotliEncoderParameter::BROTLI_PARAM_QUALITY,
                2 => BrotliEncoderParameter::BROTLI_PARAM_LGWIN,
                4 => BrotliEncoderParameter::BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING,
                5 => BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT,
                _ => continue,
            };
            state.set_parameter(parameter, *value);
        }
        Self(Box::new(state))
    }

    /// One step, and how many bytes it took: few enough that its time is some tenths of a second at
    /// most.
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(Status, usize), Wrong> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let operation = if is_last && piece.len() == bytes.len() {
            BrotliEncoderOperation::BROTLI_OPERATION_FINISH
        } else {
            BrotliEncoderOperation::BROTLI_OPERATION_PROCESS
        };
        let (mut missing, mut taken) = (piece.len(), 0);
        let went_well = with_space(out, |space, free, written| {
            self.0.compress_stream(
                operation,
                &mut missing,
                piece,
                &mut taken,
                free,
                space,
                written,
                &mut None,
                &mut |_, _, _, _| (),
            )
        });
        match went_well {
            true if self.0.is_finished() => Ok((Status::StreamEnd, taken)),
            true => Ok((Status::Ok, taken)),
            false => Err(Wrong::Data("Compression failed".to_owned())),
        }
    }
}

/// Brotli on its way into a text.
pub(super) struct Decoder(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>);

impl Decoder {
    /// Its window has at most 16 MiB (RFC 7932 §9.1).
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
    }

    /// One step, and how many bytes it took.
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(Status, usize), Wrong> {
        let (mut missing, mut taken) = (bytes.len(), 0);
        let result = with_space(out, |space, free, written| {
            BrotliDecompressStream(
                &mut missing,
                &mut taken,
                bytes,
                free,
                written,
                space,
                &mut 0,
                &mut self.0,
            )
        });
        match result {
            BrotliResult::ResultSuccess => Ok((Status::StreamEnd, taken)),
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok((Status::Ok, taken)),
            BrotliResult::ResultFailure => Err(Wrong::Brotli(self.0.error_code as i32)),
        }
    }
}

/// Writes into the space that is reserved; `write` gets it, the number of its bytes, and how many
/// it has written.
fn with_space<R>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut [u8], &mut usize, &mut usize) -> R,
) -> R {
    let (begin, mut written) = (out.len(), 0);
    out.resize(out.capacity(), 0);
    let space = &mut out[begin..];
    let mut free = space.len();
    let result = write(space, &mut free, &mut written);
    out.truncate(begin + written);
    result
}
