//! Whether a password hash looks like one: argon2id (PHC string) or bcrypt. Verifies no password.

/// The accepted forms of a hash, for errors.
pub(super) const EXPECTED: &str =
    "an argon2id hash (`flowgate hash-password` makes one) or a bcrypt hash ($2a$, $2b$ or $2y$)";

/// Checks prefix and shape.
pub(super) fn is_hash(text: &str) -> bool {
    is_argon2id(text) || is_bcrypt(text)
}

/// `$argon2id$v=19$m=19456,t=2,p=1$salt$hash` (RFC 9106; PHC string format).
fn is_argon2id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('$').collect();
    let ["", "argon2id", "v=19", parameters, salt, hash] = parts[..] else {
        return false;
    };
    let number = |part: &str, name| {
        part.strip_prefix(name)
            .is_some_and(|n: &str| n.parse::<u32>().is_ok_and(|n| n > 0))
    };
    let parameters: Vec<&str> = parameters.split(',').collect();
    let [memory, time, lanes] = parameters[..] else {
        return false;
    };
    let base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    number(memory, "m=")
        && number(time, "t=")
        && number(lanes, "p=")
        && [salt, hash]
            .iter()
            .all(|part| part.len() >= 11 && part.chars().all(base64))
}

/// `$2b$08$` and 53 characters of bcrypt's own base64: 22 of salt, 31 of hash. Costs 04 to 31.
fn is_bcrypt(text: &str) -> bool {
    let rest = ["$2a$", "$2b$", "$2y$"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix));
    let Some((cost, rest)) = rest.and_then(|rest| rest.split_once('$')) else {
        return false;
    };
    cost.len() == 2
        && cost.parse().is_ok_and(|cost: u8| (4..=31).contains(&cost))
        && rest.len() == 53
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC";

    #[test]
    fn argon2id_and_the_three_spellings_of_bcrypt_are_hashes() {
        assert!(is_hash(
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$eK8hnVZ0d6aUuOP0XFkG1d8HT0ePwDx7nTGq3dF8ybA"
        ));
        for prefix in ["$2a$", "$2b$", "$2y$"] {
            assert!(is_hash(&BCRYPT.replace("$2b$", prefix)), "{prefix}");
        }
    }

    #[test]
    fn other_texts_are_no_password_hashes() {
        let cut = BCRYPT.trim_end_matches('C');
        let argon2i = "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$eK8hnVZ0d6aUuOP0XFkG1d8HT0ePwDx7nTGq3dF8ybA";
        let lame = "$argon2id$v=19$m=0,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$eK8hnVZ0d6aUuOP0XFkG1d8HT0ePwDx7nTGq3dF8ybA";
        let cost = BCRYPT.replace("$08$", "$03$");
        for text in [
            "",
            "hunter2",
            cut,
            argon2i,
            lame,
            &cost,
            &BCRYPT.replace("$2b$", "$2x$"),
            "$argon2id$v=19$m=1,t=1,p=1$$",
        ] {
            assert!(!is_hash(text), "{text}");
        }
    }
}
