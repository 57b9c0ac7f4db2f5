//! `flowgate totp`: a new second factor.

use crate::auth::new_totp;
use crate::stdio::print_line;
use std::process::ExitCode;

/// Bytes that stand unescaped in a label (RFC 3986 §2.3).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Prints what the user and the config need. The URI is what authenticator apps read from QR codes
/// (Key Uri Format).
pub(super) fn print(user: &str) -> ExitCode {
    let made = new_totp();
    let label: String = user
        .bytes()
        .map(|byte| match byte {
            byte if is_plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let secret = &made.secret;
    print_line(format_args!("secret: {secret}"));
    print_line(format_args!(
        "uri: otpauth://totp/flowgate:{label}?secret={secret}&issuer=flowgate"
    ));
    for code in &made.recovery_codes {
        print_line(format_args!("recovery: {code}"));
    }
    let hashes: Vec<String> = made
        .recovery_hashes
        .iter()
        .map(|hash| format!("\"{hash}\""))
        .collect();
    print_line(format_args!("totp_secret = \"{secret}\""));
    print_line(format_args!("recovery_codes = [{}]", hashes.join(", ")));
    ExitCode::SUCCESS
}
