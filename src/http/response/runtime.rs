//! Maps errors of flowgate's engine and of its admin endpoints to responses.

use super::{Body, RETRY_DELAY, busy, coded, retry_after};
use crate::http::error::Error;
use hyper::{Response, StatusCode};

pub(super) fn admin(error: &crate::http::admin_error::AdminError) -> Response<Body> {
    use crate::http::admin_error::AdminError as E;
    use StatusCode as S;
    let refuse = |status, code| coded(status, code, &error.to_string());
    let failed = |code, sentence| coded(S::INTERNAL_SERVER_ERROR, code, sentence);
    match error {
        E::Draining => retry_after(refuse(S::SERVICE_UNAVAILABLE, "draining"), RETRY_DELAY),
        E::RunState => refuse(S::BAD_REQUEST, "invalid_run_state"),
        // 400, as the stock runtime answers (docs/reference/node-red-admin-api.md §2)
        E::NoSuchNodes => refuse(S::BAD_REQUEST, "not_found"),
        E::BuiltIn => refuse(S::BAD_REQUEST, "built_in"),
        E::Palette(error) => palette(error),
        E::NoSuchLibrary(_) => refuse(S::BAD_REQUEST, "unknown_library"),
        E::LibraryName => refuse(S::FORBIDDEN, "forbidden"),
        E::LibraryTaken => refuse(S::CONFLICT, "name_taken"),
        E::SettingsTooLarge { .. } => refuse(S::PAYLOAD_TOO_LARGE, "settings_too_large"),
        E::EditorFile(_) => failed("editor_failed", "the editor's files cannot be read"),
    }
}

/// A flow that was to answer a request has not, or with a status that does not exist.
pub(super) fn endpoint(error: &Error) -> Response<Body> {
    let (status, code) = match error {
        Error::EndpointTimeout => (StatusCode::GATEWAY_TIMEOUT, "endpoint_timeout"),
        _ => (StatusCode::BAD_GATEWAY, "invalid_endpoint_answer"),
    };
    coded(status, code, &error.to_string())
}

/// The editor, or the flows' endpoints, serve as many as they may.
pub(super) fn full(error: &Error) -> Response<Body> {
    let code = match error {
        Error::EditorBusy => "editor_busy",
        _ => "too_many_sockets",
    };
    busy(error, code)
}

fn palette(error: &crate::palette::Error) -> Response<Body> {
    use crate::palette::Error as E;
    use StatusCode as S;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        E::Off => refuse(S::FORBIDDEN, "modules_not_allowed"),
        E::NotAllowed => refuse(S::FORBIDDEN, "install_not_allowed"),
        // 400, with the codes of the stock runtime.
        E::Name => refuse(S::BAD_REQUEST, "invalid_module_name"),
        E::Version => refuse(S::BAD_REQUEST, "invalid_module_version"),
        E::AlreadyInstalled => refuse(S::BAD_REQUEST, "module_already_loaded"),
        E::InUse(_) => refuse(S::BAD_REQUEST, "type_in_use"),
        E::NoNodes => refuse(S::BAD_REQUEST, "invalid_module"),
        E::NotInstalled | E::Unpublished => refuse(S::NOT_FOUND, "module_not_found"),
        E::Foreign { .. } => refuse(S::FORBIDDEN, "module_source_not_allowed"),
        E::Needed => refuse(S::CONFLICT, "module_needed"),
        E::Runtime | E::EndsHost | E::NotStarted | E::Npm(_) => {
            refuse(S::INTERNAL_SERVER_ERROR, "install_failed")
        }
        E::Program { .. } => coded(
            S::INTERNAL_SERVER_ERROR,
            "install_failed",
            "npm cannot be run",
        ),
        E::Files(_) => coded(
            S::INTERNAL_SERVER_ERROR,
            "install_failed",
            "the files of the packages cannot be changed",
        ),
        E::Timeout => refuse(S::GATEWAY_TIMEOUT, "install_timeout"),
        E::Busy => retry_after(refuse(S::SERVICE_UNAVAILABLE, "install_busy"), RETRY_DELAY),
    }
}

pub(super) fn engine(error: &engine::Error) -> Response<Body> {
    use StatusCode as S;
    use engine::Error as E;
    let refuse = |status, code| coded(status, code, &error.to_string());
    match error {
        E::NoSuchNode | E::NoSuchStore => refuse(S::NOT_FOUND, "not_found"),
        E::Stopped => coded(
            S::SERVICE_UNAVAILABLE,
            "no_answer",
            "the flow ended without an answer",
        ),
        E::Busy => retry_after(refuse(S::SERVICE_UNAVAILABLE, "engine_busy"), RETRY_DELAY),
        E::TooManyProfiles => {
            let refused = refuse(S::SERVICE_UNAVAILABLE, "too_many_profiles");
            retry_after(refused, RETRY_DELAY)
        }
        E::Full => retry_after(refuse(S::SERVICE_UNAVAILABLE, "flow_busy"), RETRY_DELAY),
        E::NodeHostDown => retry_after(
            refuse(S::SERVICE_UNAVAILABLE, "node_host_down"),
            RETRY_DELAY,
        ),
        E::Gone => refuse(S::SERVICE_UNAVAILABLE, "runtime_gone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::RETRY_AFTER;

    #[test]
    fn a_client_may_try_again_when_too_many_requests_wait() {
        for error in [engine::Error::Busy, engine::Error::Full] {
            let response = engine(&error);
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], "1");
        }
    }
}
