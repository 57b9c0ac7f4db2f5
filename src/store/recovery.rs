//! Finishes, at a start, the deployment whose files a crash or a power failure may have left behind
//! its history row.
//!
//! Nothing forces the files to disk before a deployment is acknowledged: after a power failure they
//! may be the old ones, torn, or gone. Files that another program has written meanwhile are not
//! overwritten.

use super::Error;
use super::database::Deployment;
use super::disk::Disk;
use super::flow_files::{Before, FlowFiles};
use crypto::sha256;
use serde::de::IgnoredAny;
use std::iter::once;

/// The state of one file after a deployment that may have been interrupted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// As the deployment wants it.
    Done,
    /// As before it, missing, or torn.
    Behind,
    /// Another program has written it.
    Foreign,
}

impl Disk {
    /// Brings the files forward to the newest history row. Answers its revision if they were behind
    /// it, or if they do not show whether they were.
    pub(super) fn bring_forward(&mut self) -> Result<Option<String>, Error> {
        // Files that were staged and never put in place belong to an unacknowledged deployment, or
        // are in its row.
        for (name, _) in FlowFiles::default().each() {
            self.directory.discard(name);
        }
        let since = self.database.since_written()?;
        let Some((deployment, earlier)) = since.split_last().filter(|(last, _)| last.pending)
        else {
            return Ok(None);
        };
        let mut wanted = self.database.files(deployment.number)?;
        let present = self.read_files()?;
        // After a power failure the files can be those before any of these deployments.
        let old = earlier
            .iter()
            .map(|earlier| self.database.files(earlier.number))
            .collect::<Result<Vec<_>, _>>()?;
        let [flows, credentials] = states([&present, &wanted], &since, &old);
        if [flows, credentials].contains(&State::Foreign) {
            tracing::warn!(
                rev = deployment.rev,
                "the flow files were edited outside after an interrupted deployment"
            );
            return Ok(None);
        }
        let is_same = old.last() == Some(&wanted);
        wanted.flows.take_if(|_| flows == State::Done);
        wanted.credentials.take_if(|_| credentials == State::Done);
        for (name, content) in wanted.new_contents() {
            self.directory.stage(name, once(content))?;
        }
        self.move_torn(deployment, &present, &wanted)?;
        self.put_in_place(wanted.new_contents().map(|(name, _)| name))?;
        self.unsynced = Some(deployment.number);
        self.sync_written();
        if wanted == FlowFiles::default() && !is_same {
            return Ok(None);
        }
        tracing::info!(
            rev = deployment.rev,
            "an interrupted deployment was finished"
        );
        Ok(Some(deployment.rev.clone()))
    }

    /// Moves aside what a power failure has left of files that are about to be replaced: it is no
    /// backup.
    fn move_torn(
        &self,
        deployment: &Deployment,
        present: &FlowFiles,
        wanted: &FlowFiles,
    ) -> Result<(), Error> {
        for ((name, present), (_, wanted)) in present.each().into_iter().zip(wanted.each()) {
            if let Some(content) = present.filter(|content| wanted.is_some() && is_torn(content)) {
                if !content.is_empty() {
                    let kept = format!("{name}.broken-{}", deployment.at);
                    self.directory.set_aside(&kept, content)?;
                }
                self.directory.remove(name)?;
            }
        }
        Ok(())
    }
}

/// The states of the flows and of the credentials: `since` has the hashes of the files before each
/// deployment, `old` are the files of the earlier ones.
fn states(
    [present, wanted]: [&FlowFiles; 2],
    since: &[Deployment],
    old: &[FlowFiles],
) -> [State; 2] {
    let hashes = |of: fn(&Before) -> Option<[u8; 32]>| -> Vec<_> {
        let pending = since.iter().filter(|deployment| deployment.pending);
        pending.filter_map(|d| of(&d.before)).collect()
    };
    let files = |of: fn(&FlowFiles) -> Option<&[u8]>| {
        let old: Vec<_> = old.iter().map(of).collect();
        ([of(present), of(wanted)], old)
    };
    let (flows, old_flows) = files(|files| files.flows.as_deref());
    let (credentials, old_credentials) = files(|files| files.credentials.as_deref());
    [
        state(flows, &hashes(|before| before.flows), &old_flows),
        state(
            credentials,
            &hashes(|before| before.credentials),
            &old_credentials,
        ),
    ]
}

/// Compares a file with the one wanted, and with those before it: by hash, and with what was
/// written.
fn state(
    [present, wanted]: [Option<&[u8]>; 2],
    hashes: &[[u8; 32]],
    written: &[Option<&[u8]>],
) -> State {
    if present == wanted {
        return State::Done;
    }
    let Some(content) = present.filter(|content| !is_torn(content)) else {
        return State::Behind;
    };
    if hashes.contains(&sha256(content)) || written.contains(&Some(content)) {
        State::Behind
    } else {
        State::Foreign
    }
}

/// Returns whether a file is no JSON. A flow file that was not written to its end never is: its
/// last bracket is missing.
fn is_torn(content: &[u8]) -> bool {
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    serde_json::from_slice::<IgnoredAny>(text).is_err()
}
