//! Logs of EleutherAI/cookbook as they are published, as tables.

use crate::dataset::columns::Parquet;
use crate::error::{Error, Result, read_bytes};
use std::fmt::Write;
use std::path::Path;

/// The most bytes of a log; the largest published has 284 kB.
const MOST_LOG: u64 = 16 << 20;

/// Whether a file is a log as it is published.
pub(super) fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "out")
}

/// A log, `sizing/results/**/*.out`, as a table: of each line `Throughput (in TFLOP/s) for mlp_h_to_4h (4x8128x32512, b=2048): 245.6`
/// the sizes `[members x] m x k x n`, `m` times `b`, and the seconds that the throughput says.
pub(super) fn open_log(path: &Path) -> Result<Parquet> {
    let place = path.display().to_string();
    let mut table = "role,tp,batch,m,n,k,dtype,seconds\n".to_owned();
    let mut tp = 1;
    let log = read_bytes(path, MOST_LOG)?;
    for (index, line) in String::from_utf8_lossy(&log).lines().enumerate() {
        if let Some((_, rest)) = line.split_once("tensor_mp_size: ") {
            let size: String = rest.chars().take_while(char::is_ascii_digit).collect();
            tp = size.parse().unwrap_or(1);
        }
        let Some(timing) = line.strip_prefix("Throughput (in TFLOP/s) for ") else {
            continue;
        };
        let row = log_row(timing, tp).ok_or_else(|| {
            Error::field(
                format!("{place}: line {}", index + 1),
                "Throughput",
                format!("`{timing}`"),
                "sizes such as 4096x4096x64 or 16x2048x64x2048, and TFLOP/s",
            )
        })?;
        writeln!(table, "{row}").expect("a text grows");
    }
    Parquet::of_csv(table.as_bytes(), place)
}

/// The cells that a line of a log says; `None` if it says no timing.
fn log_row(timing: &str, tp: u64) -> Option<String> {
    let (label, tflops) = timing.rsplit_once(": ")?;
    let (role, sizes) = match label.split_once(" (") {
        Some((role, sizes)) => (role, sizes.strip_suffix(')')?),
        None if label.contains(", b=") => ("logits", label),
        None => ("plain", label),
    };
    let (sizes, repeats) = match sizes.split_once(", b=") {
        Some((sizes, repeats)) => (sizes, repeats.parse().ok()?),
        None => (sizes, 1),
    };
    let sizes: Vec<u64> = sizes.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let (batch, m, k, n) = match sizes[..] {
        [m, k, n] => (1, m.checked_mul(repeats)?, k, n),
        [batch, m, k, n] => (batch, m, k, n),
        _ => return None,
    };
    let rate: f64 = tflops.trim().parse().ok()?;
    let flops = 2.0 * batch as f64 * m as f64 * n as f64 * k as f64;
    let seconds = flops / (rate * 1e12);
    Some(format!("{role},{tp},{batch},{m},{n},{k},fp16,{seconds:e}"))
}
