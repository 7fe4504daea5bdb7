//! The columns of our tables, each once: for Parquet files, lines of journals, digests, checks and
//! `data/README.md`. A column that is added or changes its meaning raises [`SCHEMA`].

use super::column::{Column, Content, Kind, LARGEST_COUNT, Presence, Problem};
use super::{Cache, Kernel, Measured, Role, Row, Stop};
use crate::ops::OpKind;
use crate::units::Hertz;
use std::fmt::Write;
use std::sync::LazyLock;

/// The layout that is written; the columns of `MEASURED` came with 2, those of MoE layers with 3,
/// those of `CLOCKS` with 4, those of linear attention with 5, those of indexed attention with 6.
pub const SCHEMA: u64 = 6;

/// The oldest layout that is read.
pub(super) const OLDEST_SCHEMA: u64 = 1;

/// Largest of the small counts.
const LARGEST_32: u64 = u32::MAX as u64;

/// Columns as lines of `name: Presence, Kind { what it holds }, "meaning", get, set;`.
macro_rules! columns {
    ($($name:ident: $presence:ident, $kind:ident { $($holds:tt)* }, $meaning:literal, $get:expr, $set:expr;)+) => {
        &[$(Column {
            name: stringify!($name),
            meaning: $meaning,
            presence: Presence::$presence,
            content: Content::$kind { $($holds)* get: $get, set: $set },
        }),+]
    };
}

/// The family, on which the other columns of operators depend.
const FAMILY: &[Column] = columns! {
    family: Always, Name { names: &OpKind::NAMES, }, "which operator; the columns of the other families are null",
        |row| Some(row.op.kind().name()),
        |draft, name| OpKind::parse(name).map(|kind| draft.row.op = kind.smallest());
};

/// What all rows of a run share.
const IDENTITY: &[Column] = columns! {
    gpu: Always, Text {}, "our name of the GPU",
        |row| Some(&row.gpu), |draft, text| draft.row.gpu = draft.share(text);
    stack: Always, Text {}, "the software that ran, with its version",
        |row| Some(&row.stack), |draft, text| draft.row.stack = draft.share(text);
};

/// What every publisher may say.
const TIMING: &[Column] = columns! {
    time_us: Always, Time {}, "the median, or what the source keeps",
        |row| Some(row.time), |draft, time| draft.row.time = time;
    p10_us: Known, Time {}, "10 % of the repetitions are faster",
        |row| row.p10, |draft, time| draft.row.p10 = Some(time);
    p90_us: Known, Time {}, "90 % of the repetitions are faster",
        |row| row.p90, |draft, time| draft.row.p90 = Some(time);
    samples: Known, Whole { range: [0, LARGEST_32], }, "repetitions",
        |row| row.samples.map(u64::from), |draft, samples| draft.row.samples = Some(samples as u32);
    clock_hz: Known, Real { range: [1e6, 1e11], }, "SM clock",
        |row| row.clock.map(Hertz::hertz), |draft, clock| draft.row.clock = Some(Hertz::from_hertz(clock));
    group: Known, Whole { range: [0, LARGEST_COUNT], }, "rows of one group are held out together",
        |row| row.group, |draft, group| draft.row.group = Some(group);
};

/// Where a row is from.
const ORIGIN: &[Column] = columns! {
    source: Always, Text {}, "repository and commit, or the tool that measured",
        |row| Some(&row.origin.source), |draft, text| text.clone_into(&mut draft.origin().source);
    licence: Always, Text {}, "SPDX name of the licence of the source",
        |row| Some(&row.origin.licence), |draft, text| text.clone_into(&mut draft.origin().licence);
    libraries: Known, Text {}, "versions below the stack",
        |row| row.origin.libraries.as_deref(), |draft, text| draft.origin().libraries = Some(text.to_owned());
};

/// How a row of `measure` was measured; null in rows of other tables, as the first column shows.
const MEASURED: &[Column] = columns! {
    set: Measured, Text {}, "the set of the plan; fp8 products of `slow_sums` are summed without fast accumulation",
        |row| measured(row).map(|about| about.set.as_str()), |draft, text| draft.begin_measured(text);
    role: Measured, Name { names: &Role::NAMES, }, "why it was measured",
        |row| measured(row).map(|about| about.role.name()),
        |draft, name| Role::parse(name).map(|role| draft.measured.role = role);
    cache: Measured, Name { names: &Cache::NAMES, }, "where the operands are when a call begins; `cold` in new rows",
        |row| measured(row).map(|about| about.cache.name()),
        |draft, name| Cache::parse(name).map(|cache| draft.measured.cache = cache);
    stop: Measured, Name { names: &Stop::NAMES, }, "why no more replays were taken",
        |row| measured(row).map(|about| about.stop.name()),
        |draft, name| Stop::parse(name).map(|stop| draft.measured.stop = stop);
    kernel: Known, Text {}, "the algorithm, where the library reports it",
        |row| kernel(row)?.name.as_deref(), |draft, text| draft.kernel.name = Some(text.to_owned());
    at_s: Measured, Real { range: [0.0, 1e9], }, "seconds since the run began, on the device's clock",
        |row| measured(row).map(|about| about.at_s), |draft, at_s| draft.measured.at_s = at_s;
    min_us: Measured, Time {}, "the fastest replay, per call",
        |row| measured(row).map(|about| about.min), |draft, time| draft.measured.min = time;
    p25_us: Measured, Time {}, "the lower quartile of the replays, per call",
        |row| measured(row).map(|about| about.quartiles.0), |draft, time| draft.measured.quartiles.0 = time;
    p75_us: Measured, Time {}, "the upper quartile of the replays, per call",
        |row| measured(row).map(|about| about.quartiles.1), |draft, time| draft.measured.quartiles.1 = time;
    half_width: Known, Real { range: [0.0, 1e3], },
        "half the 95 % interval of the median over the median; null under 7 replays",
        |row| measured(row)?.half_width, |draft, value| draft.measured.half_width = Some(value);
    power_watts: Known, Real { range: [0.0, 1e5], }, "board power after the replays",
        |row| measured(row)?.power_watts, |draft, value| draft.measured.power_watts = Some(value);
    temperature_celsius: Known, Real { range: [-100.0, 300.0], }, "temperature after the replays",
        |row| measured(row)?.temperature_celsius,
        |draft, value| draft.measured.temperature_celsius = Some(value);
    waves: Known, Real { range: [0.0, 1e12], }, "rounds of blocks over all processors, as the library counts them",
        |row| kernel(row)?.waves, |draft, waves| draft.kernel.waves = Some(waves);
    rank: Measured, Whole { range: [0, LARGEST_32], }, "the library's algorithm, 0 for its first choice, as in all new rows",
        |row| measured(row).map(|about| about.rank.into()), |draft, rank| draft.measured.rank = rank as u32;
    calls: Measured, Whole { range: [1, LARGEST_32], }, "calls in the chain that one replay runs",
        |row| measured(row).map(|about| about.calls.into()), |draft, calls| draft.measured.calls = calls as u32;
    tile_rows: Known, Whole { range: [0, LARGEST_32], }, "rows of the output that one block computes",
        |row| kernel(row)?.tile.map(|tile| tile.0.into()), |draft, rows| draft.tile.0 = Some(rows as u32);
    tile_cols: Known, Whole { range: [0, LARGEST_32], }, "its columns",
        |row| kernel(row)?.tile.map(|tile| tile.1.into()), |draft, cols| draft.tile.1 = Some(cols as u32);
    stages: Known, Whole { range: [0, LARGEST_32], }, "stages of the pipeline through shared memory",
        |row| kernel(row)?.stages.map(u64::from), |draft, stages| draft.kernel.stages = Some(stages as u32);
    split_k: Known, Whole { range: [0, LARGEST_32], }, "parts that the reduction is split into",
        |row| kernel(row)?.split_k.map(u64::from), |draft, parts| draft.kernel.split_k = Some(parts as u32);
    cluster_rows: Known, Whole { range: [0, LARGEST_32], }, "blocks of a cluster along the rows",
        |row| kernel(row)?.cluster.map(|cluster| cluster.0.into()),
        |draft, rows| draft.cluster.0 = Some(rows as u32);
    cluster_cols: Known, Whole { range: [0, LARGEST_32], }, "and along the columns",
        |row| kernel(row)?.cluster.map(|cluster| cluster.1.into()),
        |draft, cols| draft.cluster.1 = Some(cols as u32);
    workspace_bytes: Known, Whole { range: [0, i64::MAX as u64], }, "scratch memory that the algorithm asks for",
        |row| kernel(row)?.workspace_bytes, |draft, bytes| draft.kernel.workspace_bytes = Some(bytes);
};

/// What the clock did meanwhile.
const CLOCKS: &[Column] = columns! {
    throttled: Measured, Flag {}, "whether the clock was under 0.8 of the median of its class (family, decades of time and of FLOPs per byte)",
        |about| about.throttled, |draft, flag| draft.measured.throttled = flag;
    clock_reasons: Known, Text {}, "what held the clock back within the last second, as NVML names it, joined by `+`; `none` for nothing",
        |row| measured(row)?.clock_reasons.as_deref(),
        |draft, text| draft.measured.clock_reasons = Some(text.to_owned());
};

/// What `CLOCKS` replaced: in these layouts a case was timed again after a rest, and the second time was kept.
const BEFORE_CLOCKS: &[Column] = columns! {
    remeasured: Measured, Flag {}, "whether the clock had dropped, so that this is the second time",
        |about| about.throttled, |draft, flag| draft.measured.throttled = flag;
};

/// Every field of operators: names, counts, flags.
static OPERATOR: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns: Vec<Column> = Vec::new();
    for kind in OpKind::ALL {
        for dimension in kind.dimensions() {
            let mut known = columns.iter();
            let place = known.position(|column| column.name == dimension.name);
            let place = place.unwrap_or_else(|| {
                columns.push(Column {
                    name: dimension.name,
                    meaning: "",
                    presence: Presence::Operator,
                    content: Content::Dimension([None; OpKind::ALL.len()]),
                });
                columns.len() - 1
            });
            if let Content::Dimension(of) = &mut columns[place].content {
                of[kind as usize] = Some(dimension);
            }
        }
    }
    columns.sort_by_key(|column| match column.kind() {
        Kind::Text => 0,
        Kind::Whole | Kind::Real => 1,
        Kind::Flag => 2,
    });
    columns
});

fn measured(row: &Row) -> Option<&Measured> {
    row.measured.as_deref()
}

fn kernel(row: &Row) -> Option<&Kernel> {
    measured(row)?.kernel.as_ref()
}

/// The columns of a layout, each behind those that it depends on: the order of digests.
pub(super) fn columns(version: u64) -> impl Iterator<Item = &'static Column> {
    let (measured, clocks): (&[Column], &[Column]) = match version {
        OLDEST_SCHEMA => (&[], &[]),
        2 | 3 => (MEASURED, BEFORE_CLOCKS),
        _ => (MEASURED, CLOCKS),
    };
    let rest = [IDENTITY, TIMING, ORIGIN, measured, clocks];
    let known = move |column: &&Column| column.layout() <= Some(version);
    let operator = FAMILY.iter().chain(OPERATOR.iter().filter(known));
    operator.chain(rest.into_iter().flatten())
}

/// Every column in the order that files have.
pub(super) fn columns_of_file() -> impl Iterator<Item = &'static Column> {
    let flags = |wanted: bool| {
        let columns = OPERATOR.iter();
        columns.filter(move |column| (column.kind() == Kind::Flag) == wanted)
    };
    let shared = IDENTITY.iter().chain(TIMING).chain(flags(true));
    let operator = FAMILY.iter().chain(flags(false));
    let measured = MEASURED.iter().chain(CLOCKS);
    shared.chain(ORIGIN).chain(operator).chain(measured)
}

/// The columns of one line of a journal, whose header holds what all rows share.
pub(super) fn columns_of_line() -> impl Iterator<Item = &'static Column> {
    let measured = MEASURED.iter().chain(CLOCKS);
    columns_of_operator().chain(TIMING).chain(measured)
}

/// The columns of an operator.
pub(super) fn columns_of_operator() -> impl Iterator<Item = &'static Column> {
    FAMILY.iter().chain(OPERATOR.iter())
}

/// Every column as a Markdown table, in the order of files, as `data/README.md` holds it.
pub fn columns_markdown() -> String {
    let mut table = "| column | rows | meaning | holds |\n|---|---|---|---|\n".to_owned();
    for column in columns_of_file() {
        let (rows, meaning) = match &column.content {
            Content::Dimension(families) => {
                let known = OpKind::ALL.into_iter().zip(families);
                let known = known.filter_map(|(kind, dimension)| Some((kind, (*dimension)?)));
                let (kinds, mut units): (Vec<_>, Vec<_>) = known.map(|(kind, about)| (kind.name(), about.unit)).unzip();
                units.dedup();
                (kinds.join(", "), units.join(" or "))
            }
            _ => {
                let rows = match column.presence {
                    Presence::Always => "all",
                    Presence::Measured => "`measure`",
                    Presence::Operator | Presence::Known => "where known",
                };
                (rows.to_owned(), column.meaning.to_owned())
            }
        };
        let (name, allowed) = (column.name, column.allowed(None));
        writeln!(table, "| `{name}` | {rows} | {meaning} | {allowed} |").expect("a String grows without failing");
    }
    table
}

/// The number of elements of a tensor of these sizes; `None` above 2^64 - 1.
pub(super) fn product(sizes: &[u64]) -> Option<u64> {
    sizes
        .iter()
        .try_fold(1, |product: u64, size| product.checked_mul(*size))
}

/// Checks everything about a row that a reader relies on.
pub(super) fn check(row: &Row) -> Result<(), Problem> {
    columns(SCHEMA).try_for_each(|column| column.check(row))?;
    if let Some((column, value, allowed)) = row.op.misfit() {
        return Err(Problem {
            column,
            value: value.to_string(),
            allowed,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this list is a change of the layout on disk: it raises [`SCHEMA`].
    #[test]
    fn files_have_these_columns_in_this_order() {
        let names: Vec<&str> = columns_of_file().map(|column| column.name).collect();
        let expected = "gpu stack time_us p10_us p90_us samples clock_hz group causal gated source licence \
             libraries family layout dtype pass kind load cache_dtype m n k batch heads kv_heads seq_q seq_kv head_dim \
             value_dim window rows cols bytes ranks stride tokens hidden width experts top_k width_shards expert_shards key_heads \
             query_rank latent rotary index_heads index_dim set role cache stop kernel at_s min_us p25_us p75_us \
             half_width power_watts temperature_celsius waves rank calls tile_rows tile_cols stages split_k \
             cluster_rows cluster_cols workspace_bytes throttled clock_reasons";
        assert_eq!(names.join(" "), expected);
        let required = columns_of_file().filter(|column| column.presence == Presence::Always);
        let required: Vec<&str> = required.map(|column| column.name).collect();
        assert_eq!(required.join(" "), "gpu stack time_us source licence family");
        let mut of_digest: Vec<&str> = columns(SCHEMA).map(|column| column.name).collect();
        let mut names = names;
        of_digest.sort_unstable();
        names.sort_unstable();
        assert_eq!(of_digest, names);
    }

    #[test]
    fn the_readme_documents_every_column() {
        let readme = include_str!("../../data/README.md");
        let table = columns_markdown();
        assert!(readme.contains(&table), "data/README.md must hold\n{table}");
    }
}
