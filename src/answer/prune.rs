//! What an existing model loses to meet targets, as a document.

use crate::answer::step_bases;
use crate::arch::{Architecture, Workload, config_json, layers_json};
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::prune::{self, Choice, Query};
use crate::report::prune::PruneReport;
use crate::request::{LEAST_POSITIONS, PruneRequest};

/// What is left of `model` for the request, whose step is `workload`.
pub fn prune(
    predictor: &Predictor,
    model: &Architecture,
    workload: &Workload,
    request: &PruneRequest,
) -> Result<PruneReport> {
    predictor.gpu().require(workload.dtypes())?;
    predictor.framework(workload.mode)?.check_layout(workload)?;
    let positions = request.export.then(|| workload.keys().max(LEAST_POSITIONS));
    if let Some(positions) = positions {
        let layers = model.each_layer().unwrap_or_default();
        let config = match request.choice {
            Choice::Blocks => layers_json(model, &layers, positions),
            Choice::Uniform => config_json(model, positions),
        };
        config.map_err(|_| {
            let allowed = "blocks of llama models alone (Nemotron-NAS); choice uniform for others that a config holds";
            Error::field("search", "export", &model.name, allowed)
        })?;
    }
    let query = Query {
        architecture: model,
        workload,
        targets: &request.target,
        choice: request.choice,
        scores: &request.scores,
        positions,
    };
    let pruned = prune::prune(predictor, &query)?;
    let basis = step_bases(predictor, workload.mode, &pruned.after)?;
    let report = PruneReport::new(predictor, &query, &pruned, basis)?;
    let Some(positions) = positions else { return Ok(report) };
    let config = config_json(&pruned.found.architecture, positions);
    Ok(report.with_config(
        config.or_else(|_| layers_json(model, &pruned.found.layers, positions))?,
        model,
    ))
}
