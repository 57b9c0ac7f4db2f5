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
        /// The name of the program that gets a token; empty: none does.
        app: &'a str,
        /// What was wrong with the last try.
        error: Option<&'a str>,
        /// The paths and names of the providers.
        providers: &'a [(String, String)],
        /// The path of the script for passkeys; `None`: there are none.
        passkeys: Option<&'a str>,
    },
    /// A program has signed in: hands it its token.
    App {
        /// Its name.
        app: &'a str,
        /// The token.
        token: &'a str,
        /// How long the token lasts.
        seconds: &'a str,
        /// The path of the program.
        path: &'a str,
    },
    /// The user has signed in.
    SignedIn {
        /// The user's name.
        user: &'a str,
        /// Where the sign-out is sent.
        sign_out: &'a str,
        /// True if the user lacks the permission for the page that was asked for.
        forbidden: bool,
    },
    /// The user has signed out, and is led to the sign-out at the provider.
    SignedOut {
        /// The URL there.
        provider: &'a str,
    },
    /// The connection has no TLS.
    Insecure,
}

/// The page's content security policy: loads nothing, runs no script but that of its own text, is
/// in no frame, and sends its form to this origin only. With passkeys it also runs a file of this
/// origin, which asks this origin for challenges.
pub(super) fn policy(page: &Page<'_>) -> &'static str {
    static PLAIN: LazyLock<String> = LazyLock::new(|| policy_with("", ""));
    static PASSKEYS: LazyLock<String> =
        LazyLock::new(|| policy_with(" 'self'", " connect-src 'self';"));
    match page {
        Page::Form {
            passkeys: Some(_), ..
        } => &PASSKEYS,
        _ => &PLAIN,
    }
}

fn policy_with(script: &str, connect: &str) -> String {
    let hash = |start: &str, end: &str| {
        let text = TEMPLATE.split_once(start).map_or("", |(_, rest)| rest);
        let text = text.split_once(end).map_or("", |(text, _)| text);
        STANDARD.encode(sha256(text.as_bytes()))
    };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'{script};{connect} form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        hash("<style>", "</style>"),
        hash("<script>", "</script>")
    )
}

/// The parts of the template that depend on the page.
const PARTS: [&str; 8] = [
    "error",
    "forbidden",
    "form",
    "passkeys",
    "signed in",
    "app",
    "signed out",
    "insecure",
];

/// The page as HTML.
pub(super) fn text(page: &Page<'_>) -> String {
    let (shown, values) = parts(page);
    let mut text = TEMPLATE.to_owned();
    for part in PARTS {
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
    // After the values, which have no comment: it would be escaped.
    (filled + rest).replace("<!-- providers -->", &links(page))
}

/// The parts that a page shows, and the values in them.
fn parts<'a>(page: &Page<'a>) -> (Vec<&'static str>, Vec<(&'static str, &'a str)>) {
    match page {
        Page::Form {
            sign_in,
            back,
            app,
            error,
            passkeys,
            ..
        } => {
            let mut shown = vec!["form"];
            shown.extend(error.map(|_| "error"));
            shown.extend(passkeys.map(|_| "passkeys"));
            let values = vec![
                ("sign_in", *sign_in),
                ("return", *back),
                ("app", app),
                ("error", error.unwrap_or_default()),
                ("script", passkeys.unwrap_or_default()),
            ];
            (shown, values)
        }
        Page::App {
            app,
            token,
            seconds,
            path,
        } => {
            let values = vec![("app", *app), ("token", token), ("seconds", seconds)];
            (vec!["app"], [values, vec![("path", path)]].concat())
        }
        Page::SignedIn {
            user,
            sign_out,
            forbidden,
        } => {
            let mut shown = vec!["signed in"];
            shown.extend(forbidden.then_some("forbidden"));
            (shown, vec![("user", user), ("sign_out", sign_out)])
        }
        Page::SignedOut { provider } => (vec!["signed out"], vec![("sign_out", provider)]),
        Page::Insecure => (vec!["insecure"], Vec::new()),
    }
}

/// The links to the providers.
fn links(page: &Page<'_>) -> String {
    let Page::Form { providers, .. } = page else {
        return String::new();
    };
    let link = |(path, label): &(String, String)| {
        let (path, label) = (escaped(path), escaped(label));
        format!("<a class=\"provider\" href=\"{path}\">Sign in with {label}</a>")
    };
    providers.iter().map(link).collect()
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
    let inner = if shown { inner } else { "" };
    [before, inner, &with_part(after, part, shown)].concat()
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
            app: "",
            error: Some("<b>"),
            providers: &[("./sign-in/a?return=\"".into(), "<i>{{user}}".into())],
            passkeys: None,
        });
        assert!(page.contains("value=\"/a?&quot;&gt;&lt;script&gt;{{user}}\""));
        assert!(page.contains("&lt;b&gt;") && !page.contains("<script>"));
        assert!(page.contains("return=&quot;\">Sign in with &lt;i&gt;{{user}}</a>"));
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
