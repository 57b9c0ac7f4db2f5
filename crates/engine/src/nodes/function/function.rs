//! `function`: runs JavaScript on every message (docs/reference/node-red-engine.md §4.3).
//!
//! Only the glue: the code runs in a [`Sandbox`], which is independent of the host; its effects are
//! carried out here.

use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, TimerId, Wake, boxed};
use crate::script::{Code, Effect, Import, Sandbox, ScriptMessage};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::time::Duration;
use value::{Failure, Message};

/// Names that no module can have, as in Node-RED: there is something under them already.
const TAKEN: [&str; 17] = [
    "Buffer",
    "Date",
    "RED",
    "URL",
    "URLSearchParams",
    "clearInterval",
    "clearTimeout",
    "console",
    "context",
    "env",
    "flow",
    "global",
    "node",
    "promisify",
    "setInterval",
    "setTimeout",
    "util",
];

#[derive(Deserialize)]
#[serde(default)]
struct Properties {
    func: String,
    outputs: Json,
    timeout: Json,
    initialize: String,
    finalize: String,
    libs: Vec<Library>,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            func: String::new(),
            outputs: Json::from(1),
            timeout: Json::from(0),
            initialize: String::new(),
            finalize: String::new(),
            libs: Vec::new(),
        }
    }
}

/// A module that the code wants under a name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Library {
    var: SmolStr,
    module: SmolStr,
}

struct Function {
    sandbox: Sandbox,
    /// The sandbox's numbers of running timers, and the host's.
    timers: HashMap<u32, TimerId>,
}

/// Builds a function node. One that wants a module under a name that is taken is refused; whether
/// its modules can be loaded shows when it starts.
pub(crate) fn build(build: &Build<'_>, host: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let seconds = number(&properties.timeout);
    let code = Code {
        function: properties.func.into(),
        initialize: properties.initialize,
        finalize: properties.finalize,
        imports: imports(properties.libs, host)?,
        outputs: number(&properties.outputs).map_or(0, whole),
        limit: seconds
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .filter(|limit| !limit.is_zero()),
    };
    Ok(boxed(Function {
        sandbox: Sandbox::new(host.scripts()?, code, host.context()),
        timers: HashMap::new(),
    }))
}

/// The modules, each under a name of its own. As in Node-RED, those without a name count for
/// nothing.
fn imports(libs: Vec<Library>, host: &mut Host<'_>) -> Result<Box<[Import]>, Failure> {
    let mut imports: Vec<Import> = Vec::new();
    let mut all_are_named = true;
    for Library { var, module } in libs {
        if TAKEN.contains(&var.as_str()) || imports.iter().any(|other| other.var == var) {
            host.log(Level::Error, format!("Invalid module variable name: {var}"));
            all_are_named = false;
        } else if !var.is_empty() {
            imports.push(Import { var, module });
        }
    }
    if !all_are_named {
        return Err(Failure::error(
            "Function node failed to load external modules",
        ));
    }
    Ok(imports.into())
}

/// A number property, which editors write as a number or as text.
fn number(json: &Json) -> Option<f64> {
    let number = json
        .as_f64()
        .or_else(|| json.as_str()?.trim().parse().ok())?;
    (number > 0.0).then_some(number)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number; `as` saturates"
)]
fn whole(number: f64) -> usize {
    number as usize
}

impl Node for Function {
    fn start(&mut self, host: &mut Host<'_>) {
        let effects = self.sandbox.start();
        self.carry_out(effects, host);
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        self.sandbox.wire(host.watched(), host.taker(0).is_some());
        let effects = self.sandbox.call(message);
        self.carry_out(effects, host);
    }

    fn takes_scripts(&self) -> bool {
        true
    }

    fn receive_script(&mut self, message: ScriptMessage, host: &mut Host<'_>) {
        self.sandbox.wire(host.watched(), host.taker(0).is_some());
        let effects = self.sandbox.call_script(message);
        self.carry_out(effects, host);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(due) = wake else { return };
        let Some(number) = self
            .timers
            .iter()
            .find(|(_, id)| **id == due)
            .map(|(number, _)| *number)
        else {
            return;
        };
        self.timers.remove(&number);
        // A deployment may have changed the wires while the code waited.
        self.sandbox.wire(host.watched(), host.taker(0).is_some());
        let effects = self.sandbox.timer(number);
        self.carry_out(effects, host);
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        let effects = self.sandbox.close();
        self.carry_out(effects, host);
        None
    }
}

impl Function {
    fn carry_out(&mut self, effects: Vec<Effect>, host: &mut Host<'_>) {
        for effect in effects {
            match effect {
                Effect::Pass(message) => host.pass(message),
                Effect::Feed(message) => host.send_script(message),
                Effect::SendFirst(message) => host.send(0, message),
                Effect::Send(messages) => host.send_all(messages),
                Effect::Done(message) => host.done(message),
                Effect::Error(failure, message) => host.error(failure, message),
                Effect::Status(status) => host.status(status),
                Effect::Log(level, value) => host.log(level, value),
                Effect::SetTimer(number, delay) => {
                    self.timers.insert(number, host.after(delay));
                }
                Effect::ClearTimer(number) => {
                    if let Some(timer) = self.timers.remove(&number) {
                        host.cancel(timer);
                    }
                }
            }
        }
    }
}
