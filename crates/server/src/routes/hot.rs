//! CPU samples by function, and by the instructions of one function.

use crate::loaded::Loaded;
use crate::params::Params;
use crate::{Error, ListingQuestion};
use serde_json::{Value, json};
use unhitch_analysis::table::Name;
use unhitch_analysis::{Cancel, self_samples};
use unhitch_model::units;

/// `GET hot`
pub(super) fn hot(loaded: &Loaded<'_>, params: &Params, cancel: &Cancel) -> Result<Value, Error> {
    let (selection, trace) = (params.selection(loaded)?, loaded.trace);
    let filter = selection.filter(Name::Samples)?;
    let samples = loaded
        .table(Name::Samples, selection.window, cancel)?
        .indices(selection.of_rows(filter.as_ref()), cancel)?;
    if let Some(function) = params.get("function") {
        let question = ListingQuestion { function, samples: &samples };
        let listing = (loaded.tools.listing)(trace, &question).map_err(Error::Query)?;
        return Ok(for_page(listing));
    }
    let total = samples.len();
    let functions = self_samples(trace, samples);
    let functions = functions.iter().map(|place| {
        let module = trace.modules.get(place.module).map_or("?", |module| trace.name(module.path));
        let share = place.samples as f64 / total.max(1) as f64;
        json!({ "function": place.label(trace), "module": module, "samples": place.samples, "share": share })
    });
    Ok(json!({ "samples": total, "functions": functions.collect::<Vec<_>>() }))
}

/// The command line's listing, with addresses as text: JavaScript numbers cannot hold them.
fn for_page(mut listing: Value) -> Value {
    let hex = |value: &Value| json!(value.as_u64().map(|number| format!("{number:#x}")));
    let mut lines = listing["instructions"].take();
    for line in lines.as_array_mut().into_iter().flatten() {
        for key in ["offset", "address"] {
            line[key] = hex(&line[key]);
        }
    }
    let number = |key: &str| listing["loop"][key].as_u64();
    let loop_text = number("instructions").zip(number("samples")).map(|(instructions, samples)| {
        let share = listing["loop"]["share"].as_f64().unwrap_or(0.0) * 100.0;
        let (length, samples) =
            (units::plural(instructions, "instruction"), units::plural(samples, "sample"));
        format!("a loop of {length} with {samples}, {share:.1} % of the function's own samples")
    });
    (listing["loop"], listing["source"], listing["lines"]) =
        (json!(loop_text), listing["code"].take(), lines);
    if let Some(object) = listing.as_object_mut() {
        object.retain(|key, _| key != "instructions" && key != "code" && key != "version");
    }
    listing
}
