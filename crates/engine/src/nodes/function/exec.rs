//! `exec`: runs a command, in a shell and whole (exec), or directly and as its output comes
//! (spawn).

use super::exec_command::{Command, words};
use super::exec_process::{self, End, Event, Group, Outputs, Process};
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Closing, Host, Node, TimerId, Wake, boxed};
use crate::nodes::status;
use bytes::Bytes;
use flows::HiddenVariables;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use value::{Failure, Message, Object, Path, Value, coerce};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    command: SmolStr,
    addpay: Json,
    append: SmolStr,
    use_spawn: Json,
    timer: Json,
    oldrc: Json,
}

struct Exec {
    command: Command,
    /// Runs the command without a shell and sends its output as it comes.
    spawn: bool,
    /// The time-out for a process.
    limit: Option<Duration>,
    /// Reports the result as Node-RED before 0.17 did.
    old: bool,
    running: HashMap<u32, Running>,
}

/// The state of a running process.
struct Running {
    group: Rc<Group>,
    message: Message,
    line: String,
    timer: Option<TimerId>,
}

/// An event of a process.
enum ProcessEvent {
    /// One step of a process in spawn mode.
    Stepped(Box<Process>, Event),
    /// The whole output of a process in exec mode, by its id.
    Collected(u32, Outputs),
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let yes = |value: &Json| text_of(value) == "true";
    let value = match &properties.addpay {
        // Flows from before it was a property.
        Json::Null | Json::Bool(true) => Some(Path::name("payload")),
        Json::Bool(false) => None,
        path => match text_of(path).as_str() {
            "" => None,
            path => Some(Path::parse_message(path)?),
        },
    };
    let seconds = coerce::parse_float(&text_of(&properties.timer));
    Ok(boxed(Exec {
        command: Command {
            start: properties.command.trim().into(),
            value,
            append: properties.append.trim().into(),
        },
        // Only the text: as a bool it is none (observed).
        spawn: properties.use_spawn == "true",
        limit: Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|limit| !limit.is_zero()),
        old: yes(&properties.oldrc),
        running: HashMap::new(),
    }))
}

/// The shell of exec mode (docs/reference/node-red-engine.md §4.2).
fn shell() -> &'static str {
    if std::path::Path::new("/bin/bash").exists() {
        "/bin/bash"
    } else {
        "/bin/sh"
    }
}

/// Output as text if it is UTF-8, else as a buffer.
fn readable(bytes: Bytes) -> Value {
    match std::str::from_utf8(&bytes) {
        Ok(text) => Value::from(text),
        Err(_) => Value::buffer(bytes),
    }
}

/// The end of a process, for the third output and `msg.rc`.
fn result(end: End, message: Option<String>) -> Value {
    let mut rc = Object::default();
    let code = end
        .code
        .map_or(Value::Null, |c| Value::Number(f64::from(c)));
    rc.insert(SmolStr::new_static("code"), code);
    if let Some(message) = message {
        rc.insert(SmolStr::new_static("message"), message.into());
    }
    if let Some(signal) = end.signal {
        rc.insert(SmolStr::new_static("signal"), signal.into());
    }
    Value::object(rc)
}

impl Exec {
    fn launch(&self, line: &str, hidden: &HiddenVariables) -> io::Result<Process> {
        if self.spawn {
            let words = words(line);
            let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
            return Process::start(program, arguments, hidden);
        }
        Process::start(shell(), &["-c", line], hidden)
    }

    fn run(&mut self, message: Message, host: &mut Host<'_, ProcessEvent>) {
        let line = match self.command.line(&message) {
            Ok(line) => line,
            Err(failure) => return host.error(failure, Some(message)),
        };
        if line.trim().is_empty() {
            let failure = Failure {
                name: SmolStr::new_static("TypeError [ERR_INVALID_ARG_VALUE]"),
                code: SmolStr::new_static("ERR_INVALID_ARG_VALUE"),
                ..Failure::error("The argument 'file' cannot be empty. Received ''")
            };
            return host.error(failure, Some(message));
        }
        let process = match self.launch(&line, &host.config().hide_env) {
            Ok(process) => process,
            Err(e) => return self.not_started(&e, message, host),
        };
        let id = process.id;
        host.status(status("blue", "dot", &format!("pid:{id}")));
        let running = Running {
            group: Rc::clone(&process.group),
            message,
            line,
            timer: self.limit.map(|limit| host.after(limit)),
        };
        self.running.insert(id, running);
        if self.spawn {
            watch(process, host);
        } else {
            host.spawn(async move { ProcessEvent::Collected(id, process.collect().await) });
        }
    }

    /// The code of a program that cannot be started is its error number, negative (observed: -2).
    fn not_started(&self, error: &io::Error, message: Message, host: &mut Host<'_, ProcessEvent>) {
        let code = -error.raw_os_error().unwrap_or(1);
        let end = End {
            code: Some(code),
            signal: None,
        };
        host.status(status("red", "dot", &format!("rc:{code}")));
        self.report_end(end, message, host);
    }

    /// Sends to the third output how a process of spawn mode ended.
    fn report_end(&self, end: End, mut message: Message, host: &mut Host<'_, ProcessEvent>) {
        let payload = match (self.old, end.code) {
            (false, _) => result(end, None),
            (true, Some(code)) => Value::Number(f64::from(code)),
            (true, None) => Value::Null,
        };
        message.set(SmolStr::new_static("payload"), payload);
        let finished = host.watched().then(|| message.clone());
        host.send(2, message);
        if let Some(message) = finished {
            host.done(message);
        }
    }

    /// A process of this node has ended: its timer goes with it.
    fn forget(&mut self, id: u32, host: &mut Host<'_, ProcessEvent>) -> Option<Running> {
        let running = self.running.remove(&id)?;
        if let Some(timer) = running.timer {
            host.cancel(timer);
        }
        Some(running)
    }

    fn stepped(&mut self, process: Process, event: Event, host: &mut Host<'_, ProcessEvent>) {
        let (output, bytes) = match event {
            Event::Out(bytes) => (0, bytes),
            Event::Err(bytes) => (1, bytes),
            Event::End(end) => {
                let Some(running) = self.forget(process.id, host) else {
                    return;
                };
                host.status(match end.code {
                    Some(code) => status("yellow", "dot", &format!("rc:{code}")),
                    None => status("red", "dot", "killed"),
                });
                return self.report_end(end, running.message, host);
            }
        };
        if let Some(running) = self.running.get(&process.id) {
            let mut message = running.message.clone();
            message.set(SmolStr::new_static("payload"), readable(bytes));
            host.send(output, message);
        }
        watch(process, host);
    }

    fn collected(&mut self, id: u32, outputs: Outputs, host: &mut Host<'_, ProcessEvent>) {
        let Some(Running {
            mut message, line, ..
        }) = self.forget(id, host)
        else {
            return;
        };
        let failed = outputs.end.code != Some(0);
        let (text, rc) = outcome(&outputs, &line);
        host.status(Value::object(Object::default()));
        if failed {
            host.status(text);
        }
        if failed || !self.old {
            message.set(SmolStr::new_static("rc"), rc.clone());
        }
        let mut send = |output: usize, payload: Value| {
            let mut message = message.clone();
            message.set(SmolStr::new_static("payload"), payload);
            host.send(output, message);
        };
        let out = readable(outputs.out);
        send(0, out.clone());
        if !outputs.err.is_empty() {
            send(1, readable(outputs.err));
        }
        let mut finished = message.clone();
        finished.set(SmolStr::new_static("payload"), out);
        if failed || !self.old {
            message.take("rc");
            message.set(SmolStr::new_static("payload"), rc);
            host.send(2, message);
        }
        host.done(finished);
    }

    /// A message asks for the end of a process: the one it names, or the only one.
    fn kill(&self, mut message: Message, host: &mut Host<'_, ProcessEvent>) {
        let name = message.get("kill").as_str().map(str::to_uppercase);
        let name = name.filter(|name| name.starts_with("SIG"));
        let name = name.unwrap_or_else(|| {
            message.set(SmolStr::new_static("kill"), Value::from("SIGTERM"));
            "SIGTERM".to_owned()
        });
        let running = match message.get("pid") {
            Value::Undefined if self.running.len() == 1 => self.running.values().next(),
            Value::Undefined => None,
            pid => coerce::to_text(pid)
                .parse()
                .ok()
                .and_then(|pid: u32| self.running.get(&pid)),
        };
        if let Some(running) = running {
            let Some(signal) = exec_process::signal(&name) else {
                return host.error(unknown_signal(&name), Some(message));
            };
            running.group.signal(signal);
            host.status(status("red", "dot", "killed"));
        }
        host.done(message);
    }
}

fn unknown_signal(name: &str) -> Failure {
    Failure {
        name: SmolStr::new_static("TypeError [ERR_UNKNOWN_SIGNAL]"),
        code: SmolStr::new_static("ERR_UNKNOWN_SIGNAL"),
        ..Failure::error(format!("Unknown signal: {name}"))
    }
}

/// The status and the result of a process of exec mode.
fn outcome(outputs: &Outputs, line: &str) -> (Value, Value) {
    if let Some(output) = outputs.too_long {
        let code = "ERR_CHILD_PROCESS_STDIO_MAXBUFFER";
        let rc = Value::record([
            ("code", code.into()),
            (
                "message",
                format!("{output} maxBuffer length exceeded").into(),
            ),
        ]);
        return (status("red", "dot", &format!("error:{code}")), rc);
    }
    if outputs.end.code == Some(0) {
        let rc = result(outputs.end, None);
        return (Value::object(Object::default()), rc);
    }
    let err = String::from_utf8_lossy(&outputs.err);
    let rc = result(outputs.end, Some(format!("Command failed: {line}\n{err}")));
    let text = match outputs.end.code {
        Some(code) => format!("error:{code}"),
        None => "killed".to_owned(),
    };
    (status("red", "dot", &text), rc)
}

/// Waits for what a process does next, as soon as the flow has room for it.
fn watch(mut process: Process, host: &mut Host<'_, ProcessEvent>) {
    let source = host.source();
    host.spawn(async move {
        source.room().await;
        let event = process.next().await;
        ProcessEvent::Stepped(Box::new(process), event)
    });
}

impl Node<ProcessEvent> for Exec {
    fn receive(&mut self, message: Message, host: &mut Host<'_, ProcessEvent>) {
        if message.properties().contains_key("kill") {
            self.kill(message, host);
        } else {
            self.run(message, host);
        }
    }

    fn wake(&mut self, wake: Wake, _host: &mut Host<'_, ProcessEvent>) {
        let Wake::Timer(timer) = wake else { return };
        let due = self.running.values().find(|r| r.timer == Some(timer));
        if let Some(running) = due {
            running.group.signal(Signal::TERM);
        }
    }

    fn event(&mut self, event: ProcessEvent, host: &mut Host<'_, ProcessEvent>) {
        match event {
            ProcessEvent::Stepped(process, event) => self.stepped(*process, event, host),
            ProcessEvent::Collected(id, outputs) => self.collected(id, outputs, host),
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_, ProcessEvent>) -> Option<Closing> {
        host.status(Value::object(Object::default()));
        let running = std::mem::take(&mut self.running);
        let groups: Vec<Rc<Group>> = running.into_values().map(|r| r.group).collect();
        (!groups.is_empty()).then(|| Box::pin(exec_process::end(groups)) as Closing)
    }
}
