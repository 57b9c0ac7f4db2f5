//! `[upstream]`, `[[upstream]]`: the runtimes behind us.
//!
//! Knows how its address is written and the bounds of its numbers; opens nothing but the files of
//! its secrets.

use super::error::SpannedError;
use super::mount;
use super::policy::{over, policy};
use super::raw::{self, Entry};
use super::setting::{Source, Span, flag, line_of, number};
use super::upstream_url::{URL, UpstreamUrl, host_name};
use super::{Account, Auth, Certificate, Dialect, ServiceAccount, Upstream};
use crypto::Secret;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// The most idle connections that a worker keeps.
const MAX_POOL: usize = 10_000;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

impl Upstream {
    /// An account is used where admin paths and endpoints share a root.
    pub(super) fn account_warning(&self) -> Option<String> {
        if self.account.is_none() || !self.mount.admin_root.is_empty() {
            return None;
        }
        Some(format!(
            "the upstream {} has an account and no admin_root: paths that node packages add to its admin API cannot be \
             told from endpoints of flows. Set httpAdminRoot in its settings and admin_root here to the same path",
            self.mount.name
        ))
    }
}

/// All of them; each answers for requests of its own, with its own policy over the one of all.
/// `workers`: their number.
pub(super) fn upstreams(
    tables: Option<Spanned<raw::Upstreams>>,
    auth: Option<&Auth>,
    workers: usize,
    base: &raw::Policy,
    source: &Source<'_>,
) -> Result<Vec<Upstream>, SpannedError> {
    let Some(tables) = tables else {
        return Ok(Vec::new());
    };
    let span = tables.span();
    let tables = match tables.into_inner() {
        raw::Upstreams::One(table) => vec![Spanned::new(span, *table)],
        raw::Upstreams::Several(tables) => tables,
    };
    let mut upstreams: Vec<Upstream> = Vec::new();
    for mut table in tables {
        let span = table.span();
        let own = std::mem::take(&mut table.get_mut().policy);
        let mut upstream = upstream(table, auth, workers, source)?;
        upstream.mount.policy = policy(over(own, base), source)?;
        let before = upstreams.iter().map(|other| &other.mount);
        mount::alone(&upstream.mount, before)
            .map_err(|sentence| SpannedError::rule(span, sentence))?;
        upstreams.push(upstream);
    }
    Ok(upstreams)
}

fn upstream(
    table: Spanned<raw::Upstream>,
    auth: Option<&Auth>,
    workers: usize,
    source: &Source<'_>,
) -> Result<Upstream, SpannedError> {
    let span = table.span();
    let mut raw = table.into_inner();
    let Some(url) = &raw.url else {
        return Err(SpannedError::rule(
            span,
            format!("an upstream needs a url, {URL}"),
        ));
    };
    let url = source.parsed(url, URL, |text| UpstreamUrl::parse(text, source.base))?;
    if !url.secure {
        without_tls(&raw)?;
    }
    let certificate = certificate(&raw.cert, &raw.key, source)?;
    let ca_file = raw.ca_file.as_ref().map(|entry| source.path(entry));
    let ca_file = ca_file.transpose()?;
    let (mount, root) = mount::mount(&raw, url.name(), auth, source)?;
    let name = |entry| {
        source.parsed(entry, "a host name", |text| {
            host_name(text).then(|| text.to_owned())
        })
    };
    let dialect = match &raw.dialect {
        Some(entry) => source.parsed(entry, "\"node-red\" or \"service\"", dialect)?,
        None => Dialect::NodeRed,
    };
    let (in_flight, tunnels) = pools(&mut raw)?;
    let share = in_flight.0.div_ceil(workers).min(MAX_POOL);
    Ok(Upstream {
        mount,
        root,
        account: account(&mut raw, dialect, source)?,
        identity_headers: flag(raw.identity_headers, false)?,
        socket: url.socket,
        socket_users: Vec::new(),
        secure: url.secure,
        host: url.host,
        port: url.port,
        server_name: raw.server_name.as_ref().map(name).transpose()?,
        ca_file,
        certificate,
        dialect,
        reload: flag(raw.reload, true)?,
        connect: source.duration(raw.connect, 5 * SECOND, MS..=HOUR)?,
        first_byte: source.duration(raw.first_byte, 60 * SECOND, MS..=HOUR)?,
        idle: source.duration(raw.idle, 60 * SECOND, MS..=HOUR)?,
        keep_alive: source.duration(raw.keep_alive, 4 * SECOND, MS..=HOUR)?,
        pool: number(raw.pool, share, 0..=MAX_POOL)?,
        max_in_flight: in_flight.0,
        max_in_flight_per_address: in_flight.1,
        max_tunnels: tunnels.0,
        max_tunnels_per_address: tunnels.1,
        health: source.duration(raw.health, 5 * SECOND, 10 * MS..=HOUR)?,
    })
}

/// Refuses what is for a connection with TLS.
fn without_tls(raw: &raw::Upstream) -> Result<(), SpannedError> {
    let for_tls = [&raw.server_name, &raw.ca_file, &raw.cert, &raw.key];
    for_tls
        .into_iter()
        .flatten()
        .next()
        .map_or(Ok(()), |entry| {
            let sentence = "this is for an https:// upstream, and the url is another";
            Err(SpannedError::rule(entry.span(), sentence))
        })
}

/// The maximum in all, and of one address.
type Pool = (usize, usize);

/// The requests and the tunnels that there may be at a time, in all and of one address: half,
/// unless it is set.
fn pools(raw: &mut raw::Upstream) -> Result<(Pool, Pool), SpannedError> {
    let pool = |all: Entry, share: Entry, usual: usize, least: usize| {
        let all = number(all, usual, least..=1_000_000)?;
        let share = number(share, all.div_ceil(2), least..=all)?;
        Ok((all, share))
    };
    let in_flight = raw.max_in_flight_per_address.take();
    let tunnels = raw.max_tunnels_per_address.take();
    Ok((
        pool(raw.max_in_flight.take(), in_flight, 1024, 1)?,
        pool(raw.max_tunnels.take(), tunnels, 4096, 0)?,
    ))
}

/// Reads the upstream's account: a token or a user of its own, not both.
fn account(
    raw: &mut raw::Upstream,
    dialect: Dialect,
    source: &Source<'_>,
) -> Result<Option<Account>, SpannedError> {
    let for_user = [
        &raw.user,
        &raw.password,
        &raw.password_file,
        &raw.client_id,
        &raw.scope,
    ];
    let place = for_user
        .into_iter()
        .flatten()
        .next()
        .map(toml::Spanned::span);
    match (&raw.token_file, place) {
        (None, None) => Ok(None),
        (Some(file), None) => {
            let path = source.path(file)?;
            let place = file.span();
            match source.secret(None, raw.token_file.take())? {
                Some((token, _)) if is_token(token.reveal()) => {
                    Ok(Some(Account::Token { file: path, token }))
                }
                _ => Err(SpannedError::rule(place, NO_TOKEN)),
            }
        }
        (None, Some(place)) => service_account(raw, dialect, source, place).map(Some),
        (Some(_), Some(place)) => {
            let sentence =
                "the upstream is shown either a token_file or a user with a password, not both";
            Err(SpannedError::rule(place, sentence))
        }
    }
}

fn service_account(
    raw: &mut raw::Upstream,
    dialect: Dialect,
    source: &Source<'_>,
    place: Span,
) -> Result<Account, SpannedError> {
    let Some(user) = &raw.user else {
        return Err(SpannedError::rule(
            place,
            "this is for signing in to the upstream, which needs a user",
        ));
    };
    let user = source.parsed(user, "the name of a user there, not empty", not_empty)?;
    let password = source.secret(raw.password.take(), raw.password_file.take())?;
    let Some((password, _)) = password else {
        let sentence = "the user needs a password or a password_file";
        return Err(SpannedError::rule(place, sentence));
    };
    let client = match dialect {
        Dialect::NodeRed => "node-red-admin",
        Dialect::Service => "service-admin",
    };
    Ok(Account::User(ServiceAccount {
        user,
        password,
        client_id: match &raw.client_id {
            Some(entry) => source.parsed(entry, "the name of a client, not empty", not_empty)?,
            None => client.to_owned(),
        },
        scope: match &raw.scope {
            Some(entry) => source.text(entry, "permissions, separated by spaces")?,
            None => "*".to_owned(),
        },
    }))
}

fn not_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a token's file again; `None`: it holds no token now.
pub fn token_in(file: &Path) -> Option<Secret> {
    line_of(file).ok().filter(|token| is_token(token.reveal()))
}

pub(super) const NO_TOKEN: &str =
    "the file holds no bearer token (RFC 6750: letters, digits and -._~+/=)";

/// The gateway's own certificate there, from `cert` and `key`.
pub(super) fn certificate(
    cert: &Entry,
    key: &Entry,
    source: &Source<'_>,
) -> Result<Option<Certificate>, SpannedError> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(Certificate {
            cert: source.path(cert)?,
            key: source.path(key)?,
        })),
        (None, None) => Ok(None),
        (Some(one), None) | (None, Some(one)) => {
            let sentence = "cert and key belong together: the paths of two PEM files";
            Err(SpannedError::rule(one.span(), sentence))
        }
    }
}

/// Returns whether this can be a bearer token (RFC 6750 §2.1).
pub fn is_token(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    !text.is_empty() && text.bytes().all(plain)
}

fn dialect(text: &str) -> Option<Dialect> {
    match text {
        "node-red" => Some(Dialect::NodeRed),
        "service" => Some(Dialect::Service),
        _ => None,
    }
}
