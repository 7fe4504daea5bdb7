//! What an existing model loses to meet targets, as a document.

use crate::answer::step_bases;
use crate::arch::{Architecture, Workload, config_json, layers_json};
use crate::error::Result;
use crate::predict::Predictor;
use crate::prune::{self, Query};
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
    let query = Query {
        architecture: model,
        workload,
        targets: &request.target,
        choice: request.choice,
        scores: &request.scores,
    };
    let pruned = prune::prune(predictor, &query)?;
    let ops = pruned.after.lines.iter().map(|line| &line.item.op);
    let basis = step_bases(predictor, workload.mode, ops)?;
    let report = PruneReport::new(predictor, &query, &pruned, basis)?;
    if !request.export {
        return Ok(report);
    }
    let positions = workload.keys().max(LEAST_POSITIONS);
    let config = match pruned.architecture.kinds.is_empty() {
        true => config_json(&pruned.architecture, positions),
        false => layers_json(model, &pruned.layers, positions),
    };
    Ok(report.with_config(config?))
}
