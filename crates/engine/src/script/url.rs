//! Parses and writes URLs, queries and punycode for `URL`, `URLSearchParams` and the module
//! `punycode`, with the crates `url`, `form_urlencoded` and `idna`, which follow the WHATWG
//! standard and RFC 3492. Of the standard's tests, `url` differs in `file:` URLs with a host or
//! with empty segments, and in the origin of `blob:` URLs.

use rquickjs::{Ctx, Function, IntoJs, Object as JsObject, Result, Value as JsValue};
use url::{Url, form_urlencoded, quirks};

/// Punycode takes quadratic time and cannot be interrupted; a label of DNS has 63 characters.
const MAX_LABEL: usize = 4096;

/// Defines `url(input, base)`, `urlWith(href, part, value)`, `queryPairs(text)` and
/// `queryText(pairs)`. The result of unparsable text is `undefined`; strings must be well-formed.
pub(super) fn define(native: &JsObject<'_>) -> Result<()> {
    let ctx = native.ctx();
    native.set("url", Function::new(ctx.clone(), parse)?)?;
    native.set("urlWith", Function::new(ctx.clone(), with_part)?)?;
    native.set("queryPairs", Function::new(ctx.clone(), query_pairs)?)?;
    native.set("queryText", Function::new(ctx.clone(), query_text)?)
}

/// Defines `toPunycode(label)` and `fromPunycode(label)`.
pub(super) fn define_punycode(native: &JsObject<'_>) -> Result<()> {
    let ctx = native.ctx();
    let encode = |label: String| bounded(&label).and_then(idna::punycode::encode_str);
    native.set("toPunycode", Function::new(ctx.clone(), encode)?)?;
    let decode = |label: String| bounded(&label).and_then(idna::punycode::decode_to_string);
    native.set("fromPunycode", Function::new(ctx.clone(), decode)?)
}

/// The parts of a URL, as the properties of `URL` have them.
struct Parts(Url);

impl<'js> IntoJs<'js> for Parts {
    fn into_js(self, ctx: &Ctx<'js>) -> Result<JsValue<'js>> {
        let url = &self.0;
        let parts = JsObject::new(ctx.clone())?;
        parts.set("href", quirks::href(url))?;
        parts.set("origin", quirks::origin(url))?;
        parts.set("protocol", quirks::protocol(url))?;
        parts.set("username", quirks::username(url))?;
        parts.set("password", quirks::password(url))?;
        parts.set("host", quirks::host(url))?;
        parts.set("hostname", quirks::hostname(url))?;
        parts.set("port", quirks::port(url))?;
        parts.set("pathname", quirks::pathname(url))?;
        parts.set("search", quirks::search(url))?;
        parts.set("hash", quirks::hash(url))?;
        Ok(parts.into_value())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn parse(input: String, base: Option<String>) -> Option<Parts> {
    let base = base.map(|base| Url::parse(&base)).transpose().ok()?;
    let url = Url::options().base_url(base.as_ref()).parse(&input);
    url.ok().map(Parts)
}

/// A URL with another value of one part; a value that is not allowed there changes nothing.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn with_part(href: String, part: String, value: String) -> Option<Parts> {
    let mut url = Url::parse(&href).ok()?;
    match part.as_str() {
        "protocol" => drop(quirks::set_protocol(&mut url, &value)),
        "username" => drop(quirks::set_username(&mut url, &value)),
        "password" => drop(quirks::set_password(&mut url, &value)),
        "host" => drop(quirks::set_host(&mut url, &value)),
        "hostname" => drop(quirks::set_hostname(&mut url, &value)),
        "port" => drop(quirks::set_port(&mut url, &value)),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        "hash" => quirks::set_hash(&mut url, &value),
        _ => {}
    }
    Some(Parts(url))
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn query_pairs(text: String) -> Vec<Vec<String>> {
    form_urlencoded::parse(text.as_bytes())
        .map(|(name, value)| vec![name.into_owned(), value.into_owned()])
        .collect()
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn query_text(pairs: Vec<Vec<String>>) -> String {
    let pairs = pairs.iter().filter_map(|pair| pair.split_first());
    let pairs = pairs.map(|(name, value)| (name, value.concat()));
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

fn bounded(label: &str) -> Option<&str> {
    (label.len() <= MAX_LABEL).then_some(label)
}
