//! The tables of `gateway.toml`, one conversion each: the value written, or the default, within its
//! bounds.
//!
//! Defines defaults and bounds; `gateway.toml` gives their origins, and `tests/docs.rs` checks that
//! both agree.

use super::error::SpannedError;
use super::raw::{self, AuthChoice};
use super::setting::{Source, Span, flag, number};
use super::shared_store::shared_store;
use super::{
    Auth, Config, Console, Editor, Limits, Log, Route, Server, Storage, Throttle, Timeouts,
};
use super::{
    admin_route, audit, cluster, comms, conditions, engine, engine_listen, headers, hosts,
    identity, isolation, jwt, networks, oidc, policy, proxy_headers, route, tls, traces, upstream,
    users,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The whole file.
pub(super) fn config(raw: raw::Root, source: &Source<'_>) -> Result<Config, SpannedError> {
    let (listen_spans, plain_span) = listen_spans(&raw.server);
    let endpoint_hosts_span = raw.server.endpoint_hosts.as_ref().map(Spanned::span);
    let server = server(raw.server, source)?;
    let written_out = raw.auth.is_some();
    let auth = raw
        .auth
        .map(|choice| auth(choice, raw.tls.client_ca.is_some(), source))
        .transpose()?
        .flatten();
    let apart = raw.engine.listen.is_some();
    if auth.is_none() && !written_out && !apart {
        loopback_only(&server.listen, &listen_spans)?;
    }
    let operations = operations(raw.operations.as_ref(), apart, source)?;
    let operations_span = raw.operations.as_ref().map(Spanned::span);
    let others = [(server.plain, plain_span), (operations, operations_span)];
    listened_once(&server.listen, listen_spans, others)?;
    let shared = raw.storage.url.as_ref().or(raw.storage.url_file.as_ref());
    let shared_span = shared.map(Spanned::span);
    let storage = storage(raw.storage, source)?;
    let (mut raw_engine, mut raw_upstream, data) = (raw.engine, raw.upstream, &storage.directory);
    let process = isolation::isolation(&mut raw_engine, &mut raw_upstream, data, source)?;
    let cluster = cluster::cluster(raw.cluster, &storage, process.as_ref(), source)?;
    let has_own_engine = raw_upstream.is_none() || process.is_some();
    let upstreams = upstream::upstreams(
        raw_upstream,
        auth.as_ref(),
        server.workers,
        &raw.policy,
        source,
    )?;
    let node_host = raw_engine.node_host.is_some();
    let admin_routes = admin_route::admin_routes(raw.admin_route, &upstreams, node_host, source)?;
    let routes = route::routes(raw.route, &upstreams, &admin_routes, source)?;
    without_sign_in_page(endpoint_hosts_span, &routes)?;
    let config = cluster::placed(engine_listen::apart(Config {
        file: None,
        secrets: Vec::new(),
        written: [].into(),
        sha256: String::new(),
        server,
        tls: tls::tls(raw.tls, source)?,
        timeouts: timeouts(raw.timeouts, source)?,
        limits: limits(raw.limits, source)?,
        headers: headers::headers(raw.headers, source)?,
        auth: auth.map(|auth| with_page(auth, &routes)),
        identity: identity::identity(raw.identity, &upstreams, source)?,
        policy: policy::policy(raw.policy, source)?,
        comms: comms::comms(raw.comms, source)?,
        console: console(raw.console)?,
        engine: engine::engine(raw_engine, process, cluster.is_some(), data, source)?,
        editor: editor(raw.editor, has_own_engine, source)?,
        storage,
        cluster,
        operations,
        operations_hosts: hosts::hosts(raw.operations_hosts, source)?.unwrap_or_default(),
        log: log(raw.log, source)?,
        audit: audit::audit(raw.audit, source)?,
        traces: traces::traces(raw.traces, source)?,
        routes,
        admin_routes,
        upstreams,
    }));
    sharing(config, has_own_engine, shared_span)
}

/// Refuses endpoint hosts where browsers sign in with the page, which is not answered under them.
/// `span`: where the file has them; `None`: there are none.
fn without_sign_in_page(span: Option<Span>, routes: &[Route]) -> Result<(), SpannedError> {
    let led = routes.iter().find(|route| route.ambient.page);
    let Some((span, route)) = span.zip(led) else {
        return Ok(());
    };
    let sentence = format!(
        "the [[route]] {} has sign_in = \"page\", and the sign-in page is not answered under the hosts of endpoints, \
         whose pages could read the passwords that are typed there; use basic = true, or tokens, or remove endpoint_hosts",
        route.path
    );
    Err(SpannedError::rule(span, sentence))
}

/// Where the file has the listeners for clients: those with TLS, and the one without.
fn listen_spans(server: &raw::Server) -> (Vec<Span>, Option<Span>) {
    let listen = server.listen.iter().flat_map(Spanned::get_ref);
    let plain = server.plain.as_ref().map(Spanned::span);
    (listen.map(Spanned::span).collect(), plain)
}

/// The configuration, if it has what gateways need that share a database. `url`: where that is
/// named; `None`: there is none.
fn sharing(
    config: Config,
    has_own_engine: bool,
    url: Option<Span>,
) -> Result<Config, SpannedError> {
    let Some(span) = url else {
        return Ok(config);
    };
    let mut policies = config
        .upstreams
        .iter()
        .map(|upstream| &upstream.mount.policy);
    let approves = policies.any(|policy| !policy.approval.flows.is_empty());
    let auth = config.auth.as_ref();
    let seals = auth.is_some_and(|auth| auth.passkeys || !auth.oidc.is_empty());
    let sentence = if has_own_engine && config.cluster.is_none() {
        "gateways that share a database stand in front of upstreams, or need a [cluster]: the own engine keeps its flows in its directory"
    } else if config.storage.history == 0 {
        "gateways that share a database need the history, which tells what another one has deployed: storage.history must not be 0"
    } else if approves && config.storage.credential_secret.is_none() {
        "changes need approval, so gateways that share a database need storage.credential_secret, the same at all: it encrypts the credentials in proposals"
    } else if seals && config.storage.credential_secret.is_none() {
        "users sign in with passkeys or [[auth.oidc]], so gateways that share a database need storage.credential_secret, the same at all: it encrypts the sign-ins under way and the providers' tokens"
    } else {
        return Ok(config);
    };
    Err(SpannedError::rule(span, sentence))
}

/// `None`: it is off, as by default for an engine that runs apart: the address is the gateway's.
fn operations(
    raw: Option<&Spanned<toml::Value>>,
    apart: bool,
    source: &Source<'_>,
) -> Result<Option<SocketAddr>, SpannedError> {
    match raw {
        Some(entry) => source.address_or_off(entry),
        None if apart => Ok(None),
        None => Ok(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)))),
    }
}

fn console(raw: raw::Console) -> Result<Console, SpannedError> {
    let enabled = flag(raw.enabled, true)?;
    Ok(Console { enabled })
}

/// A route that leads to the sign-in page needs it, and so do providers and passkeys.
fn with_page(auth: Auth, routes: &[Route]) -> Auth {
    let leads =
        routes.iter().any(|route| route.ambient.page) || !auth.oidc.is_empty() || auth.passkeys;
    Auth {
        sign_in_page: auth.sign_in_page || leads,
        ..auth
    }
}

/// Without `[auth]` the API is open, so only this machine may reach it.
fn loopback_only(listen: &[SocketAddr], spans: &[Span]) -> Result<(), SpannedError> {
    let outside = listen
        .iter()
        .zip(spans)
        .find(|(address, _)| !address.ip().is_loopback());
    outside.map_or(Ok(()), |(_, span)| {
        let sentence = "without an [auth] table everyone may deploy, so only loopback addresses may be bound; add [auth], or write auth = \"off\" at the top of the file";
        Err(SpannedError::rule(span.clone(), sentence))
    })
}

/// Each address has one listener.
fn listened_once(
    listen: &[SocketAddr],
    spans: Vec<Span>,
    others: [(Option<SocketAddr>, Option<Span>); 2],
) -> Result<(), SpannedError> {
    let spans = spans.into_iter().chain(std::iter::once(0..0));
    let others = others.into_iter();
    let others = others.filter_map(|(address, span)| Some((address?, span.unwrap_or_default())));
    let listened = listen.iter().copied().zip(spans);
    each_once(listened.chain(others).collect())
}

/// Two listeners on one address cannot be; port 0 is another port each time. Defaults stand nowhere
/// in the file, so they come first: the error is reported at an address that stands there.
fn each_once(mut listeners: Vec<(SocketAddr, Span)>) -> Result<(), SpannedError> {
    listeners.sort_by_key(|(_, span)| span.start);
    let mut seen = Vec::new();
    for (address, span) in listeners {
        if address.port() != 0 && seen.contains(&address) {
            return Err(SpannedError::rule(
                span,
                format!("another listener of this file has the address {address}"),
            ));
        }
        seen.push(address);
    }
    Ok(())
}

fn server(raw: raw::Server, source: &Source<'_>) -> Result<Server, SpannedError> {
    let plain = raw
        .plain
        .map(|entry| plain(&entry, source))
        .transpose()?
        .flatten();
    let listen = match raw.listen {
        Some(list) if list.get_ref().is_empty() && plain.is_none() => {
            return Err(SpannedError::rule(
                list.span(),
                "no client could connect: no address here, and no server.plain",
            ));
        }
        Some(list) => list
            .get_ref()
            .iter()
            .map(|entry| source.address(entry))
            .collect::<Result<_, _>>()?,
        None => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8443))],
    };
    let workers = match raw.workers {
        Some(entry) if entry.get_ref().as_str() == Some("auto") => None,
        Some(entry) => Some(workers(entry)?),
        None => None,
    };
    let trusted_proxies = networks::networks(raw.trusted_proxies, source)?;
    let proxy_protocol_span = raw.proxy_protocol.as_ref().map(Spanned::span);
    let proxy_protocol = flag(raw.proxy_protocol, false)?;
    if proxy_protocol && trusted_proxies.is_empty() {
        return Err(SpannedError::rule(
            proxy_protocol_span.unwrap_or_default(),
            "no client could connect: only server.trusted_proxies may send PROXY headers, and there are none",
        ));
    }
    let proxy_headers = raw.trusted_proxy_headers;
    let hosts = hosts::some_hosts(raw.hosts, source)?;
    Ok(Server {
        listen,
        plain,
        trusted_proxy_headers: proxy_headers::names(proxy_headers, &trusted_proxies, source)?,
        workers: workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        drain: source.duration(raw.drain, 25 * SECOND, SECOND..=HOUR)?,
        watch: match raw.watch {
            Some(entry) if entry.get_ref().as_str() == Some("off") => None,
            entry => Some(source.duration(entry, 2 * SECOND, 10 * MS..=HOUR)?),
        },
        trusted_proxies,
        proxy_protocol,
        endpoint_hosts: hosts::endpoint_hosts(raw.endpoint_hosts, hosts.as_ref(), source)?,
        hosts,
    })
}

fn plain(
    entry: &Spanned<toml::Value>,
    source: &Source<'_>,
) -> Result<Option<SocketAddr>, SpannedError> {
    let address = source.address_or_off(entry)?;
    if address.is_some_and(|address| !address.ip().is_loopback()) {
        let sentence = "passwords and tokens would cross the network unencrypted; the plain listener takes loopback addresses only";
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    Ok(address)
}

fn workers(entry: Spanned<toml::Value>) -> Result<usize, SpannedError> {
    let span = entry.span();
    number(Some(entry), 1, 1..=1024)
        .map_err(|_| SpannedError::value(span, "\"auto\" or a whole number from 1 to 1024"))
}

fn timeouts(raw: raw::Timeouts, source: &Source<'_>) -> Result<Timeouts, SpannedError> {
    const BOUNDS: RangeInclusive<Duration> = MS..=HOUR;
    Ok(Timeouts {
        handshake: source.duration(raw.handshake, 10 * SECOND, BOUNDS)?,
        header: source.duration(raw.header, 10 * SECOND, BOUNDS)?,
        body_idle: source.duration(raw.body_idle, 60 * SECOND, BOUNDS)?,
        keep_alive: source.duration(raw.keep_alive, 75 * SECOND, BOUNDS)?,
        endpoint: source.duration(raw.endpoint, 120 * SECOND, MS..=DAY)?,
        sign_in_body: source.duration(raw.sign_in_body, 10 * SECOND, BOUNDS)?,
        body_grace: source.duration(raw.body_grace, 10 * SECOND, BOUNDS)?,
    })
}

fn limits(raw: raw::Limits, source: &Source<'_>) -> Result<Limits, SpannedError> {
    let connections = number(raw.connections, 10_000, 1..=1_000_000)?;
    let unauthenticated: usize =
        source.size(raw.unauthenticated_bytes, 256 << 20, MIB..=1024 * GIB)?;
    let of_users: usize = source.size(raw.user_bytes, 512 << 20, MIB..=1024 * GIB)?;
    Ok(Limits {
        connections,
        connections_per_address: number(
            raw.connections_per_address,
            connections.min(256),
            1..=connections,
        )?,
        header_bytes: source.size(raw.header_bytes, 16 << 10, 8 * KIB..=MIB)?,
        headers: number(raw.headers, 100, 10..=1000)?,
        body: source.size(raw.body, 5 << 20, KIB..=GIB)?,
        sign_in_body: source.size(raw.sign_in_body, 16 << 10, KIB..=MIB)?,
        body_rate: source.size(raw.body_rate, 1 << 10, 0..=GIB)?,
        unauthenticated_bytes: unauthenticated,
        unauthenticated_bytes_per_address: source.size(
            raw.unauthenticated_bytes_per_address,
            unauthenticated.min(64 << 20),
            MIB..=unauthenticated as u64,
        )?,
        user_bytes: of_users,
        bytes_per_user: source.size(
            raw.bytes_per_user,
            of_users.min(128 << 20),
            MIB..=of_users as u64,
        )?,
        h2_streams: number(raw.h2_streams, 100, 1..=10_000)?,
        h2_window: source.size(raw.h2_window, 64 << 10, 65_535..=(1 << 31) - 1)?,
        h2_resets: number(raw.h2_resets, 20, 1..=10_000)?,
        hashing: number(raw.hashing, 2, 1..=64)?,
    })
}

fn auth(
    choice: Spanned<AuthChoice>,
    asked: bool,
    source: &Source<'_>,
) -> Result<Option<Auth>, SpannedError> {
    let span = choice.span();
    let raw = match choice.into_inner() {
        AuthChoice::Text(text) if text == "off" => return Ok(None),
        AuthChoice::Text(_) => return Err(SpannedError::value(span, "\"off\" or a table [auth]")),
        AuthChoice::Table(raw) => *raw,
    };
    let lifetime = source.duration(raw.lifetime, 7 * DAY, SECOND..=365 * DAY)?;
    let idle = match raw.idle {
        Some(entry) if entry.get_ref().as_str() != Some("off") => {
            let span = entry.span();
            let idle = source.duration(Some(entry), lifetime, SECOND..=365 * DAY)?;
            if idle > lifetime {
                return Err(SpannedError::rule(
                    span,
                    "idle is longer than lifetime, so it would never end a session",
                ));
            }
            Some(idle)
        }
        _ => None,
    };
    Ok(Some(Auth {
        lifetime,
        idle,
        sessions_per_user: number(raw.sessions_per_user, 100, 1..=100_000)?,
        sign_in_page: flag(raw.sign_in_page, false)?,
        passkeys: flag(raw.passkeys, false)?,
        users: users::users(raw.user, asked, source)?,
        jwt: jwt::issuers(raw.jwt, source)?,
        oidc: oidc::providers(raw.oidc, source)?,
        anonymous: source
            .list(raw.anonymous, route::PERMISSION, route::permission)?
            .filter(|list| !list.is_empty()),
        throttle: throttle(raw.throttle, source)?,
        conditions: conditions::conditions(
            &raw.step_up,
            raw.step_up_after,
            raw.permission_networks,
            source,
        )?,
    }))
}

fn throttle(raw: raw::Throttle, source: &Source<'_>) -> Result<Throttle, SpannedError> {
    Ok(Throttle {
        per_user_and_address: number(raw.per_user_and_address, 5, 1..=100_000)?,
        per_address: number(raw.per_address, 50, 1..=100_000)?,
        per_user: number(raw.per_user, 20, 1..=1_000_000)?,
        bad_tokens_per_address: number(raw.bad_tokens_per_address, 100, 1..=1_000_000)?,
        window: source.duration(raw.window, 600 * SECOND, SECOND..=DAY)?,
    })
}

fn editor(raw: raw::Editor, own_engine: bool, source: &Source<'_>) -> Result<Editor, SpannedError> {
    let Some(entry) = raw.modules else {
        return Ok(Editor { modules: None });
    };
    if !own_engine {
        let sentence = "an upstream brings its own editor; this one is for our own engine";
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    Ok(Editor {
        modules: Some(source.path(&entry)?),
    })
}

fn storage(mut raw: raw::Storage, source: &Source<'_>) -> Result<Storage, SpannedError> {
    let shared = shared_store(&mut raw, source)?;
    let secret = source.secret(raw.credential_secret, raw.credential_secret_file)?;
    Ok(Storage {
        shared,
        directory: source.directory(raw.directory, "data")?,
        history: number(raw.history, 100, 0..=100_000)?,
        history_age: source.duration(raw.history_age, 3650 * DAY, DAY..=36_500 * DAY)?,
        history_bytes: source.size(raw.history_bytes, GIB, MIB..=1024 * GIB)?,
        credential_secret: secret.map(|(secret, _)| secret),
    })
}

fn log(raw: raw::Log, source: &Source<'_>) -> Result<Log, SpannedError> {
    let level = raw.level.map(|entry| {
        source.parsed(
            &entry,
            "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
            level,
        )
    });
    let json = raw.format.map(|entry| {
        source.parsed(&entry, "\"text\" or \"json\"", |text| match text {
            "text" => Some(false),
            "json" => Some(true),
            _ => None,
        })
    });
    Ok(Log {
        level: level.transpose()?.unwrap_or(tracing::Level::INFO),
        json: json.transpose()?.unwrap_or(false),
        access: flag(raw.access, true)?,
    })
}

fn level(text: &str) -> Option<tracing::Level> {
    match text {
        "error" => Some(tracing::Level::ERROR),
        "warn" => Some(tracing::Level::WARN),
        "info" => Some(tracing::Level::INFO),
        "debug" => Some(tracing::Level::DEBUG),
        "trace" => Some(tracing::Level::TRACE),
        _ => None,
    }
}
