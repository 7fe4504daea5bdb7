//! Python bindings: every question of `shapewise::answer::question` as JSON text, operators in arrays, and the program.
//!
//! What makes keyword arguments of keys and attributes of reports is Python, in `shapewise/`.

use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use serde_json::Value;
use shapewise::answer::question::{AtHand, Question, ready, unwatched};
use shapewise::arch::{Architecture, read_object};
use shapewise::error::Error;
use shapewise::ops::{LARGEST, Op};
use shapewise::predict::estimate::Tier;
use shapewise::report::AnyReport;
use shapewise::request::{AttentionRequest, GemmRequest, OperatorRequest, Size, Sizes, TargetRequest, UNNAMED, json};
use std::ffi::OsString;
use std::sync::Arc;

create_exception!(
    shapewise,
    RequestError,
    PyValueError,
    "A request that cannot be met; `field`, `value` and `allowed` say which part of it, where it is one."
);

/// Operators that are predicted at once: their intermediate results stay in the cache.
const BATCH: usize = 4096;

/// The keys of a workload are keyword arguments like all others.
const WORKLOAD: &str = "workload.";

fn raised(error: Error) -> PyErr {
    if error.is_io() {
        return PyOSError::new_err(error.to_string());
    }
    let text = json::in_keys(&error.to_string()).replacen(WORKLOAD, "", 1);
    let raised = RequestError::new_err(text);
    Python::attach(|py| {
        let at = error.field_error();
        let field = at.map(|at| at.field.strip_prefix(WORKLOAD).unwrap_or(&at.field));
        let value = raised.value(py);
        let _ = value.setattr("field", field);
        let _ = value.setattr("value", at.map(|at| &*at.value));
        let _ = value.setattr("allowed", at.map(|at| json::in_keys(&at.allowed)));
    });
    raised
}

fn parsed(body: &str) -> PyResult<Value> {
    serde_json::from_str(body).map_err(|error| RequestError::new_err(error.to_string()))
}

/// The answer to a question.
#[pyclass(frozen, module = "shapewise._shapewise")]
struct Answer(Box<dyn AnyReport>);

#[pymethods]
impl Answer {
    /// The whole document.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.json())
    }

    /// What the command line prints.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.text())
    }

    /// The chart as JSON; none of what is not drawn.
    fn chart(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| {
            self.0
                .drawn()
                .map(|chart| serde_json::to_string(&chart).expect("a chart is JSON"))
        })
    }

    /// The same with tables of Markdown.
    fn markdown(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.markdown())
    }
}

/// A transformer that was read once.
#[pyclass(frozen, name = "Architecture", module = "shapewise._shapewise")]
struct Model(Arc<Architecture>);

#[pymethods]
impl Model {
    /// A preset, or the path of a config.json or of its folder.
    #[staticmethod]
    fn find(name: &str) -> PyResult<Self> {
        let found = Architecture::find(name).map_err(raised)?;
        Ok(Self(Arc::new(found)))
    }

    /// The object of a config.json.
    #[staticmethod]
    fn read(config: &str) -> PyResult<Self> {
        let read = read_object(&parsed(config)?, UNNAMED, "config");
        Ok(Self(Arc::new(read.map_err(raised)?)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn parameters(&self) -> u64 {
        shapewise::arch::parameters(&self.0).total
    }
}

/// Answers a question.
#[pyfunction]
#[pyo3(signature = (name, body, model=None))]
fn ask(py: Python<'_>, name: &str, body: &str, model: Option<&Bound<'_, Model>>) -> PyResult<Answer> {
    let body = parsed(body)?;
    let at_hand = Arc::new(AtHand {
        base: model.map(|model| Arc::clone(&model.get().0)),
        predictor: None,
    });
    py.detach(|| Question::find(name)?.ask(body, at_hand, &unwatched))
        .map(Answer)
        .map_err(raised)
}

/// Every question with the schemas of its request and its report.
#[pyfunction]
fn questions() -> String {
    Question::described().to_string()
}

/// The names of the tiers, in the order of their numbers in [`times`].
#[pyfunction]
fn tiers() -> Vec<&'static str> {
    Tier::ALL.into_iter().map(Tier::name).collect()
}

/// Keys with a size of each row.
type Columns = Vec<(String, Vec<i64>)>;

/// Times, lower and upper ends in microseconds and numbers of tiers of operators: those of `body`, whose `columns` are
/// keys with an array of sizes each, all equally long.
#[pyfunction]
fn times<'py>(
    py: Python<'py>,
    body: &str,
    columns: Vec<(String, PyBuffer<i64>)>,
) -> PyResult<[Bound<'py, PyByteArray>; 4]> {
    let body = parsed(body)?;
    let columns: Columns = columns
        .into_iter()
        .map(|(key, buffer)| Ok((key, buffer.to_vec(py)?)))
        .collect::<PyResult<_>>()?;
    let columns = py.detach(|| predicted(body, &columns)).map_err(raised)?;
    let [time, low, high] = [0, 1, 2].map(|at| {
        let bytes: Vec<u8> = columns.0[at].iter().flat_map(|time| time.to_ne_bytes()).collect();
        PyByteArray::new(py, &bytes)
    });
    Ok([time, low, high, PyByteArray::new(py, &columns.1)])
}

type Times = ([Vec<f64>; 3], Vec<u8>);

fn predicted(body: Value, columns: &Columns) -> Result<Times, Error> {
    let (kind, body) = json::kind_of(body);
    match kind.as_ref().and_then(Value::as_str) {
        Some("gemm") => predicted_as::<GemmRequest>(body, columns),
        _ => predicted_as::<AttentionRequest>(body, columns),
    }
}

fn predicted_as<R: Row>(mut body: Value, columns: &Columns) -> Result<Times, Error> {
    let rows = columns.first().map_or(0, |(_, column)| column.len());
    // Sizes of the first row stand in for all: a request without them cannot be read.
    for (key, column) in columns {
        body[key] = column.first().copied().unwrap_or(1).into();
    }
    let (mut request, target): (R, TargetRequest) = json::read(body)?;
    let predictor = ready().get(&target)?;
    let gpu = predictor.gpu();
    let first = Sizes::fixed(gpu, |sizes| request.op(sizes))?;
    gpu.require(first.dtype())?;
    let mut times: Times = ([const { Vec::new() }; 3], Vec::with_capacity(rows));
    times.0.iter_mut().for_each(|column| column.reserve_exact(rows));
    let mut ops: Vec<Op> = Vec::with_capacity(BATCH.min(rows));
    for start in (0..rows).step_by(BATCH) {
        ops.clear();
        for at in start..rows.min(start + BATCH) {
            for (key, column) in columns {
                set(&mut request, key, column[at], at)?;
            }
            ops.push(Sizes::fixed(gpu, |sizes| request.op(sizes)).map_err(|error| in_row(error, at))?);
        }
        for estimate in predictor.predict(&ops) {
            let ends = [estimate.time, estimate.low(), estimate.high()];
            for (column, time) in times.0.iter_mut().zip(ends) {
                column.push(time.micros());
            }
            times.1.push(estimate.tier as u8);
        }
    }
    Ok(times)
}

fn set(request: &mut impl Row, key: &str, size: i64, at: usize) -> Result<(), Error> {
    let is_size = |least| u64::try_from(size).is_ok_and(|size| (least..=LARGEST).contains(&size));
    let allowed = |least| format!("a whole number from {least} to {LARGEST}");
    let wrong = |least| Error::field(format!("row {at}"), key, size, &allowed(least));
    let number = size as u64;
    match request.column(key) {
        Some(Column::Size(place)) if is_size(1) => *place = Size::Number(number),
        Some(Column::Default(place)) if is_size(1) => *place = Some(Size::Number(number)),
        Some(Column::OrZero(place)) if is_size(0) => *place = Size::Number(number),
        Some(Column::OrZero(_)) => return Err(wrong(0)),
        Some(_) => return Err(wrong(1)),
        None => return Err(Error::field("request", key, "an array", "one value")),
    }
    Ok(())
}

fn in_row(error: Error, at: usize) -> Error {
    match error.field_error() {
        Some(wrong) => Error::field(format!("row {at}"), &wrong.field, &wrong.value, &wrong.allowed),
        None => error,
    }
}

/// A size of a request that may be an array.
enum Column<'a> {
    Size(&'a mut Size),
    Default(&'a mut Option<Size>),
    OrZero(&'a mut Size<0>),
}

/// A request whose sizes may be arrays.
trait Row: OperatorRequest {
    fn column(&mut self, key: &str) -> Option<Column<'_>>;
}

impl Row for GemmRequest {
    fn column(&mut self, key: &str) -> Option<Column<'_>> {
        Some(Column::Size(match key {
            "m" => &mut self.m,
            "n" => &mut self.n,
            "k" => &mut self.k,
            "batch" => &mut self.batch,
            _ => return None,
        }))
    }
}

impl Row for AttentionRequest {
    fn column(&mut self, key: &str) -> Option<Column<'_>> {
        Some(match key {
            "batch" => Column::Size(&mut self.batch),
            "heads" => Column::Size(&mut self.heads),
            "kv_heads" => Column::Default(&mut self.kv_heads),
            "seq_q" => Column::Size(&mut self.seq_q),
            "seq_kv" => Column::Default(&mut self.seq_kv),
            "head_dim" => Column::Size(&mut self.head_dim),
            "value_dim" => Column::Default(&mut self.value_dim),
            "window" => Column::OrZero(&mut self.window),
            _ => return None,
        })
    }
}

/// Runs the program with the arguments of this process; the exit code.
#[pyfunction]
fn main(py: Python<'_>) -> PyResult<u8> {
    let args: Vec<OsString> = py.import("sys")?.getattr("argv")?.extract()?;
    // Python would notice Ctrl-C only once the program is done.
    let signal = py.import("signal")?;
    let handler = (signal.getattr("SIGINT")?, signal.getattr("SIG_DFL")?);
    signal.call_method1("signal", handler)?;
    Ok(py.detach(|| shapewise::cli::code(args)))
}

#[pymodule]
fn _shapewise(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("RequestError", module.py().get_type::<RequestError>())?;
    module.add_class::<Answer>()?;
    module.add_class::<Model>()?;
    for function in [
        wrap_pyfunction!(ask, module)?,
        wrap_pyfunction!(main, module)?,
        wrap_pyfunction!(questions, module)?,
        wrap_pyfunction!(tiers, module)?,
        wrap_pyfunction!(times, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
