//! The headers for API version and deployment type (docs/reference/admin-api.md §4.4, §9) in both
//! dialects: `Service-…` and `Node-RED-…`.
//!
//! Looked at only after the caller is authorized.

use super::error::Error;
use flows::{DeploymentType, FlowSet, Malformed, Submission};
use hyper::HeaderMap;

/// The API version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// A flow set is an array; an accepted deployment has no body.
    V1,
    /// A flow set comes with its revision.
    V2,
}

impl Version {
    /// Its number, for metrics.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// Parses the body of a deployment; elements that are as in `active` are shared with it.
    pub(super) fn submission(self, active: &FlowSet, body: &[u8]) -> Result<Submission, Malformed> {
        match self {
            Self::V1 => Submission::v1(active, body),
            Self::V2 => Submission::v2(active, body),
        }
    }
}

/// The version asked for; `v1` unless named.
pub(super) fn version(headers: &HeaderMap) -> Result<Version, Error> {
    let names = ["service-api-version", "node-red-api-version"];
    match single(headers, names, "Service-API-Version")? {
        None | Some(b"v1") => Ok(Version::V1),
        Some(b"v2") => Ok(Version::V2),
        Some(_) => Err(Error::ApiVersion),
    }
}

/// The deployment type asked for; `full` unless named.
pub(super) fn deployment_type(headers: &HeaderMap) -> Result<DeploymentType, Error> {
    let names = ["service-deployment-type", "node-red-deployment-type"];
    match single(headers, names, "Service-Deployment-Type")? {
        None | Some(b"full") => Ok(DeploymentType::Full),
        Some(b"nodes") => Ok(DeploymentType::Nodes),
        Some(b"flows") => Ok(DeploymentType::Flows),
        Some(b"reload") => Ok(DeploymentType::Reload),
        Some(_) => Err(Error::DeploymentType),
    }
}

/// The one value of a header that has two names; an empty one counts as absent
/// (docs/reference/admin-api.md §9).
fn single<'h>(
    headers: &'h HeaderMap,
    names: [&'static str; 2],
    shown: &'static str,
) -> Result<Option<&'h [u8]>, Error> {
    let mut found = None;
    for name in names {
        for value in headers.get_all(name) {
            match (value.as_bytes(), found) {
                (b"", _) => {}
                (value, Some(other)) if value != other => return Err(Error::DoubledHeader(shown)),
                (value, _) => found = Some(value),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|&(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn both_dialects_are_accepted_and_absent_or_empty_means_the_default() {
        for (fields, wanted) in [
            (&[][..], Version::V1),
            (&[("service-api-version", "")], Version::V1),
            (&[("service-api-version", "v1")], Version::V1),
            (&[("service-api-version", "v2")], Version::V2),
            (&[("node-red-api-version", "v2")], Version::V2),
            (
                &[
                    ("service-api-version", "v2"),
                    ("node-red-api-version", "v2"),
                ],
                Version::V2,
            ),
            (
                &[("service-api-version", ""), ("node-red-api-version", "v2")],
                Version::V2,
            ),
        ] {
            assert_eq!(version(&headers(fields)).unwrap(), wanted, "{fields:?}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        for value in ["V2", "v3", "v1, v2", "2", "v2 v2"] {
            let result = version(&headers(&[("service-api-version", value)]));
            assert!(matches!(result, Err(Error::ApiVersion)), "{value}");
        }
    }

    #[test]
    fn different_values_are_refused_in_one_spelling_and_across_both() {
        for fields in [
            [("service-api-version", "v1"), ("service-api-version", "v2")],
            [
                ("service-api-version", "v1"),
                ("node-red-api-version", "v2"),
            ],
            [
                ("node-red-api-version", "v1"),
                ("node-red-api-version", "v9"),
            ],
        ] {
            let result = version(&headers(&fields));
            assert!(matches!(result, Err(Error::DoubledHeader(_))), "{fields:?}");
        }
    }

    #[test]
    fn deployment_types_are_exact() {
        for (value, wanted) in [
            ("", DeploymentType::Full),
            ("full", DeploymentType::Full),
            ("nodes", DeploymentType::Nodes),
            ("flows", DeploymentType::Flows),
            ("reload", DeploymentType::Reload),
        ] {
            let fields = headers(&[("node-red-deployment-type", value)]);
            assert_eq!(deployment_type(&fields).unwrap(), wanted);
        }
        for value in ["FULL", "bogus", "full,nodes"] {
            let fields = headers(&[("service-deployment-type", value)]);
            assert!(matches!(
                deployment_type(&fields),
                Err(Error::DeploymentType)
            ));
        }
    }
}
