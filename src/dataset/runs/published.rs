//! What names of the maps in `data/runs` mean: a GPU, a model, a workload and how long it took.

use super::map::{Map, Values, put};
use super::{Measure, Publisher, Reason, Run, Runs, Serving};
use crate::arch::{Architecture, Biases, Practice, Preset, Workload, memory_use};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::units::{BytesPerSecond, Seconds};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The runs of a publisher's table.
pub(super) fn read(publisher: Publisher, file: &Parquet) -> Result<Runs> {
    let map = Map::find(publisher.name());
    let mut runs = Runs::default();
    for row in map.rows(file, set)? {
        match row {
            Ok(row) => {
                let found = map.runs(row, set).into_iter();
                found.for_each(|values| runs.keep(values.and_then(|values| run(publisher, &values))));
            }
            Err(reason) => runs.skipped.add(&reason, 1),
        }
    }
    Ok(runs)
}

/// Every row of a publisher's table that its `[[row]]`s keep, with what they set.
#[cfg(test)]
pub fn read_rows(path: &std::path::Path, publisher: Publisher) -> Result<Vec<(Run, Values)>> {
    let rows = Map::find(publisher.name()).rows(&Parquet::open(path)?, set)?;
    let rows = rows.into_iter().filter_map(|values| {
        let values = values.ok()?;
        Some((run(publisher, &values).ok()?, values))
    });
    let valid = rows.filter(|(run, _)| run.workload.validate(&run.architecture).is_ok());
    Ok(valid.collect())
}

/// Sets a name, of which some have a meaning of their own.
fn set(values: &mut Values, name: &str, value: Value) -> Result<(), Reason> {
    match name {
        "gpu" => {
            let gpu = known_gpu(value.as_str().unwrap_or_default())?;
            let per_node = gpu.gpus_per_node().unwrap_or(0);
            let known = json!({ "name": gpu.name, "generation": gpu.generation, "per_node": per_node });
            put(values, name, known);
        }
        "arch" => put(values, name, model(values, &value)?),
        "arch.layers" => {
            let mut architecture: Architecture = read_as(&values["arch"])?;
            architecture.rescale_layers(value.as_u64().unwrap_or(0));
            put(values, "arch", json!(architecture));
        }
        "memory" => {
            let (gpu, workload) = (gpu(values)?, workload(values)?);
            let full = Workload {
                context: value.as_u64().unwrap_or(0),
                ..workload
            };
            let memory = memory_use(&read_as(&values["arch"])?, &full, &Practice::default());
            let memory = memory.map_err(|error| error.to_string())?;
            let seconds = (memory.weights / gpu.bandwidth()).secs();
            put(
                values,
                name,
                json!({ "fits": memory.fits(gpu), "seconds_to_read": seconds }),
            );
        }
        _ => put(values, name, value),
    }
    Ok(())
}

/// The model that `arch` is set to: a preset, one `like` a preset but for some of its fields, or `gpt` with the `hidden`,
/// `heads` and `layers` that are set before.
fn model(values: &Values, value: &Value) -> Result<Value, Reason> {
    if value == "gpt" {
        let size = |name: &str| values[name].as_u64().unwrap_or(0);
        let (hidden, heads) = (size("hidden"), size("heads"));
        if heads == 0 || !hidden.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide the width {hidden}"));
        }
        return Ok(json!(Architecture {
            biases: Biases::default(),
            ..Architecture::gpt(hidden, size("layers"), heads)
        }));
    }
    let like = value.get("like").unwrap_or(value).as_str().unwrap_or_default();
    let preset = Preset::find(like).map_err(|_| format!("no preset describes `{like}`"))?;
    let mut arch = Values::from_iter([("arch".to_owned(), json!(preset.architecture))]);
    let own = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "like");
    own.into_iter()
        .try_for_each(|(name, value)| set(&mut arch, &format!("arch.{name}"), value.clone()))?;
    Ok(arch["arch"].take())
}

fn known_gpu(name: &str) -> Result<&'static Gpu, Reason> {
    Gpu::find(name).map_err(|_| format!("GPU `{name}` is not in data/gpus"))
}

fn read_as<T: DeserializeOwned>(value: &Value) -> Result<T, Reason> {
    T::deserialize(value).map_err(|error| error.to_string())
}

/// The GPU that is set.
fn gpu(values: &Values) -> Result<&'static Gpu, Reason> {
    known_gpu(values["gpu"]["name"].as_str().unwrap_or_default())
}

/// The workload whose options are among the names.
fn workload(values: &Values) -> Result<Workload, Reason> {
    let mut options = json!(Workload::train(1, 1));
    let known = options.as_object_mut().expect("a workload has options");
    known.extend(values.clone());
    read_as(&options)
}

fn run(publisher: Publisher, values: &Values) -> Result<Run, Reason> {
    let text = |name: &str| values.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| values.get(name).and_then(Value::as_f64);
    let is = |name: &str, usual: bool| values.get(name).and_then(Value::as_bool).unwrap_or(usual);
    let time = Seconds::from_secs(number("seconds").unwrap_or(0.0));
    let run = Run::measured(
        Cow::Borrowed(gpu(values)?),
        read_as(&values["arch"])?,
        workload(values)?,
        time,
    );
    let load = || Serving {
        concurrency: number("concurrency").unwrap_or(0.0) as u64,
        prompt: number("prompt").unwrap_or(0.0) as u64,
        output: number("output").unwrap_or(0.0) as u64,
    };
    Ok(Run {
        publisher,
        label: text("label").unwrap_or(run.label),
        measure: text("measure")
            .and_then(|name| Measure::parse(&name))
            .unwrap_or_default(),
        serving: is("serving", false).then(load),
        software: text("software").unwrap_or_default(),
        configuration: text("configuration").unwrap_or(run.configuration),
        network: number("network_bytes_per_s").map(BytesPerSecond::from_bytes_per_sec),
        recompute_stated: is("recompute_stated", true),
        unfitted: text("unfitted"),
        ..run
    })
}
