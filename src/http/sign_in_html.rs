//! Makes the sign-in page of its one template, `sign_in_page.html`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::sha256;
use std::sync::LazyLock;

const TEMPLATE: &str = include_str!("sign_in_page.html");

/// The page as it is to be shown. Paths are relative to that of the request.
#[derive(Debug)]
pub(super) enum Page<'a> {
    /// The form.
    Form {
        /// Where it is sent.
        sign_in: &'a str,
        /// Where the sign-in leads.
        back: &'a str,
        /// What was wrong with the last try.
        error: Option<&'a str>,
    },
    /// The user has signed in.
    SignedIn {
        /// The user's name.
        user: &'a str,
        /// Where the sign-out is sent.
        sign_out: &'a str,
        /// Whether the user lacks the permission for the page that was asked for.
        forbidden: bool,
    },
    /// The connection has no TLS.
    Insecure,
}

/// Loads nothing, runs no script, is in no frame, and sends its form to this origin only.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = TEMPLATE.split_once("<style>").map_or("", |(_, rest)| rest);
    let style = style.split_once("</style>").map_or("", |(style, _)| style);
    format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        STANDARD.encode(sha256(style.as_bytes()))
    )
});

/// The page as HTML.
pub(super) fn text(page: &Page<'_>) -> String {
    let (shown, values): (&[&str], [(&str, &str); 5]) = match page {
        Page::Form {
            sign_in,
            back,
            error,
        } => {
            let shown: &[&str] = match error {
                Some(_) => &["form", "error"],
                None => &["form"],
            };
            let error = error.unwrap_or_default();
            (shown, values([sign_in, back, error, "", ""]))
        }
        Page::SignedIn {
            user,
            sign_out,
            forbidden,
        } => {
            let shown: &[&str] = if *forbidden {
                &["signed in", "forbidden"]
            } else {
                &["signed in"]
            };
            (shown, values(["", "", "", user, sign_out]))
        }
        Page::Insecure => (&["insecure"], values([""; 5])),
    };
    let mut text = TEMPLATE.to_owned();
    for part in ["error", "forbidden", "form", "signed in", "insecure"] {
        text = with_part(&text, part, shown.contains(&part));
    }
    // One pass, so that a value with the name of another one stays as it is.
    let mut filled = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or_default();
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(&escaped(value.map_or("", |(_, value)| value)));
        rest = after;
    }
    filled + rest
}

fn values(values: [&str; 5]) -> [(&'static str, &str); 5] {
    let [sign_in, back, error, user, sign_out] = values;
    [
        ("sign_in", sign_in),
        ("return", back),
        ("error", error),
        ("user", user),
        ("sign_out", sign_out),
    ]
}

/// The template with a part, or without it.
fn with_part(text: &str, part: &str, shown: bool) -> String {
    let (start, end) = (
        format!("<!-- if {part} -->"),
        format!("<!-- end {part} -->"),
    );
    let Some((before, rest)) = text.split_once(&start) else {
        return text.to_owned();
    };
    let (inner, after) = rest.split_once(&end).unwrap_or((rest, ""));
    [before, if shown { inner } else { "" }, after].concat()
}

/// Text in HTML, also in an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_a_value_is_never_a_template() {
        let page = text(&Page::Form {
            sign_in: "./sign-in",
            back: "/a?\"><script>{{user}}",
            error: Some("<b>"),
        });
        assert!(page.contains("value=\"/a?&quot;&gt;&lt;script&gt;{{user}}\""));
        assert!(page.contains("&lt;b&gt;") && !page.contains("<script>"));
        assert!(!page.contains("<!--") && !page.contains("Sign out"));
    }

    #[test]
    fn each_state_shows_its_own_parts_only() {
        let signed_in = |forbidden| {
            text(&Page::SignedIn {
                user: "ann",
                sign_out: "./sign-out",
                forbidden,
            })
        };
        assert!(signed_in(true).contains("may not see"));
        assert!(!signed_in(false).contains("may not see"));
        assert!(signed_in(false).contains("<strong>ann</strong>"));
        let insecure = text(&Page::Insecure);
        assert!(insecure.contains("HTTPS") && !insecure.contains("<form"));
    }
}
