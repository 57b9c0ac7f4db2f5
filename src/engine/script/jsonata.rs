//! `JSONata` for `RED.util.evaluateJSONataExpression`: JSON in, JSON out.

use jsonata_core::Expression;
use jsonata_core::value::JValue;
use rquickjs::function::Opt;
use rquickjs::{Ctx, Exception, Function, Object, Result};

/// Gives the library `jsonata(expression, json)`, which answers JSON, or `undefined`; without `json` it only checks.
pub(super) fn define(native: &Object<'_>) -> Result<()> {
    native.set("jsonata", Function::new(native.ctx().clone(), evaluate)?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn evaluate(ctx: Ctx<'_>, expression: String, json: Opt<String>) -> Result<Option<String>> {
    let fail = |e: &dyn std::fmt::Display| Exception::throw_message(&ctx, &e.to_string());
    let expression = Expression::compile(&expression).map_err(|e| fail(&e))?;
    let Some(json) = json.0 else { return Ok(None) };
    let data = JValue::from_json_str(&json).map_err(|e| fail(&e))?;
    let result = expression.evaluate(&data).map_err(|e| fail(&e))?;
    if result.is_undefined() {
        return Ok(None);
    }
    result.to_json_string().map(Some).map_err(|e| fail(&e))
}
