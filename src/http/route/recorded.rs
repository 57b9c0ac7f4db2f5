//! The kind of audit record for an authorized request: a property of its route, so that no handler
//! can forget it.

use super::{Admin, History, Route, Target};
use crate::audit::Event;
use crate::metrics::RouteClass;
use hyper::Method;

/// The kind of audit record for an authorized request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Recorded {
    /// Nothing: it only reads, or it is for an endpoint of a flow.
    Nothing,
    /// Its handler records events of its own.
    Own,
    /// That it was done, with its outcome.
    Write,
    /// The same; it shows a secret, so it is recorded before it is answered.
    Secret,
}

impl Recorded {
    /// The event of the record that is made from the route alone.
    pub(in crate::http) fn event(self) -> Option<Event> {
        match self {
            Self::Nothing | Self::Own => None,
            Self::Write => Some(Event::Write),
            Self::Secret => Some(Event::SecretRead),
        }
    }
}

impl Route<'_> {
    /// The kind of audit record for this route. Every request of the admin API with an unsafe
    /// method is a write, also where only the upstream has the endpoint, and where a package may
    /// have added it.
    pub(in crate::http) fn recorded(&self, method: &Method) -> Recorded {
        let write = if method.is_safe() {
            Recorded::Nothing
        } else {
            Recorded::Write
        };
        match self.target {
            Target::Token
            | Target::Revoke
            | Target::Deploy
            | Target::SetState
            | Target::AddFlow
            | Target::ReplaceFlow
            | Target::RemoveFlow
            | Target::History(History::Rollback | History::Import)
            | Target::Comms => Recorded::Own,
            Target::Own(_) if write == Recorded::Write => Recorded::Own,
            Target::Admin(Admin::Credentials) => Recorded::Secret,
            // A dry run writes nothing; another method is answered with those that there are.
            Target::Check | Target::OtherMethod(_) => Recorded::Nothing,
            _ if self.class == RouteClass::Endpoint && !self.may_be_admin => Recorded::Nothing,
            Target::Login
            | Target::Openapi
            | Target::Flows
            | Target::State
            | Target::Flow
            | Target::Own(_)
            | Target::Admin(_)
            | Target::History(_)
            | Target::Absent
            | Target::Unassigned
            | Target::PackageAdmin
            | Target::Endpoint => write,
        }
    }
}
