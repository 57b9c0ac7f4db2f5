//! Responses about proposals: to the change that has become one, and to those that cannot be
//! decided.

use super::{Body, coded, json, with};
use crate::deployment::ProposalError;
use crate::http::error::Waiting;
use crate::store::TooMany;
use hyper::header::LOCATION;
use hyper::{Response, StatusCode};

/// RFC 9110 §15.3.3.
pub(super) fn waiting(waiting: &Waiting) -> Response<Body> {
    let accepted = json(StatusCode::ACCEPTED, waiting.body());
    with(accepted, LOCATION, &waiting.url)
}

pub(super) fn error(error: &ProposalError) -> Response<Body> {
    use ProposalError as E;
    use StatusCode as S;
    let (status, code) = match error {
        E::NoSuch => (S::NOT_FOUND, "not_found"),
        E::Closed(_) => (S::CONFLICT, "proposal_closed"),
        E::Rebased => (S::CONFLICT, "proposal_stale"),
        E::Conflicts(_) | E::Malformed(_) => (S::CONFLICT, "proposal_conflict"),
        E::Locked => (S::CONFLICT, "proposal_locked"),
        E::Own | E::NoUser | E::Proposer { .. } | E::NotYours => (S::FORBIDDEN, "proposal_refused"),
        E::TooMany(TooMany::OfUser(_) | TooMany::InAll(_)) => {
            (S::TOO_MANY_REQUESTS, "too_many_proposals")
        }
        E::TooMany(TooMany::BytesOfUser(_) | TooMany::BytesInAll(_)) => {
            (S::PAYLOAD_TOO_LARGE, "proposals_too_large")
        }
    };
    coded(status, code, &error.to_string())
}
