//! [`EngineProcess`]: `flowgate engine` as a process of its own, in a directory of its own;
//! [`Separated`]: one with a gateway in front of it, in this process.

use crate::harness::{Gateway, KillOnDrop, line_with, program, read_log};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tempfile::TempDir;

/// An engine that runs apart.
pub struct EngineProcess {
    child: KillOnDrop,
    log: Receiver<String>,
    /// The line of its log that says where it listens.
    pub listening: String,
}

impl EngineProcess {
    /// Starts it with its file `engine.toml`, which gets these lines, and waits until it listens on
    /// `engine.sock`.
    pub fn start(lines: &str, directory: &Path) -> Self {
        write_file(lines, directory);
        Self::launch(command(directory, &[]))
    }

    /// Starts a command that becomes it, and waits until it listens.
    pub fn launch(mut command: Command) -> Self {
        let mut child = KillOnDrop(command.stderr(Stdio::piped()).spawn().unwrap());
        let log = read_log(&mut child.0, &Arc::default());
        let listening = line_with(&log, "listening on ");
        Self {
            child,
            log,
            listening: listening.unwrap_or_else(|log| panic!("it does not listen:\n{log}")),
        }
    }

    /// Waits for a line of its log with these words.
    pub fn wait_for_log(&self, words: &str) -> String {
        line_with(&self.log, words)
            .unwrap_or_else(|log| panic!("{words:?} is never logged:\n{log}"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Kills it.
    pub fn kill(mut self) -> ExitStatus {
        self.child.0.kill().unwrap();
        self.child.ended()
    }

    /// Ends it well.
    pub fn terminate(mut self) -> ExitStatus {
        let mut kill = Command::new("kill");
        let status = kill.args(["-s", "TERM", &self.id().to_string()]).status();
        assert!(status.unwrap().success());
        self.child.ended()
    }
}

/// The file of an engine on `engine.sock`, with more lines.
pub fn write_file(lines: &str, directory: &Path) {
    let listen = "engine.listen.address = \"unix:engine.sock\"\n";
    let text = format!("{listen}{lines}\n");
    std::fs::write(directory.join("engine.toml"), text).unwrap();
}

/// The command that starts an engine with the file that is there.
pub fn command(directory: &Path, more: &[&str]) -> Command {
    let arguments = [&["--config", "engine.toml", "engine"], more].concat();
    program(directory, &arguments)
}

/// A gateway in front of an engine that runs apart. Both have directories of their own.
pub struct Separated {
    pub gateway: Gateway,
    pub engine: Option<EngineProcess>,
    directory: TempDir,
}

impl Deref for Separated {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl Separated {
    /// With more lines of the gateway.
    pub fn start(lines: &str) -> Self {
        Self::with(lines, "")
    }

    /// The same with more lines of the engine's file.
    pub fn with(lines: &str, engine_lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = EngineProcess::start(engine_lines, directory.path());
        let socket = directory.path().join("engine.sock");
        let upstream = format!(
            "[upstream]\nurl = \"unix:{}\"\nidentity_headers = true\n[comms]\nupstream_away = \"1m\"\n",
            socket.display()
        );
        Self {
            gateway: Gateway::with(&(upstream + lines)),
            engine: Some(engine),
            directory,
        }
    }

    /// The engine's directory.
    pub fn engine_directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Starts the engine again, with more arguments.
    pub fn start_engine(&mut self, more: &[&str]) {
        let command = command(self.directory.path(), more);
        self.engine = Some(EngineProcess::launch(command));
    }
}
