//! The real program, measured by a script and killed at any moment: nothing but the row in flight
//! is lost.

use crate::skip::skip;
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use shapewise::dataset::{Role, Row, SCRIPTED, read, write};
use shapewise::ops::Op;
use shapewise::random::Random;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// 300 cases of one format.
const PLAN: &str = r#"
name = "small"
budget = "9m"
soak = "0s"
anchors = 4
anchor_period = "1s"
shortest_us = 0.2
longest_us = 10000
dtypes = { bf16 = 1.0 }

[sets]
transformer = 60
sobol = 120
memory = 60
alignment = 60
"#;

struct Place {
    folder: tempfile::TempDir,
    plan: PathBuf,
    out: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("small.toml");
        fs::write(&plan, PLAN).unwrap();
        let out = folder.path().join("mine.parquet");
        Self { folder, plan, out }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("mine.parquet.journal")
    }

    fn command(&self, device: &str, more: &[&str]) -> Command {
        let mut command = Command::new(cargo_bin!("shapewise"));
        command.args(["measure", "--device", device, "--plan"]).arg(&self.plan);
        command.arg("--out").arg(&self.out).args(more);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn measure(&self, device: &str, more: &[&str]) -> Output {
        self.command(device, more).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Everything is fine; the document.
fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one sentence of a failure with this exit code.
fn refused(code: i32, output: &Output) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    let text = said(output);
    let sentence = text.lines().last().unwrap_or_default();
    assert!(sentence.starts_with("error: "), "{text}");
    sentence.to_owned()
}

fn planned(rows: &[Row]) -> Vec<Op> {
    let about = |row: &Row| row.measured.clone().unwrap();
    let planned = rows.iter().filter(|row| about(row).role == Role::Plan);
    planned.map(|row| row.op).collect()
}

/// Whole lines of rows in a journal.
fn whole_rows(journal: &Path) -> usize {
    let bytes = fs::read(journal).unwrap_or_default();
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| line.ends_with(b"\n") && line.starts_with(b"{\"row\""))
        .count()
}

const JSON: [&str; 2] = ["--format", "json"];

#[test]
fn a_run_reports_rows_noise_drift_and_scale() {
    let place = Place::new();
    let report = done(&place.measure("scripted:set_up_us=300000", &JSON));
    assert_eq!(
        (&report["schema"], &report["gpu"], &report["scripted"]),
        (&1.into(), &SCRIPTED.into(), &true.into())
    );
    assert_eq!(
        (&report["ended"], &report["plan"]),
        (&"complete".into(), &"small".into())
    );
    assert!(report["run_to_run"]["pairs"].as_u64().unwrap() >= 5, "{report}");
    let noise = report["run_to_run"]["median"].as_f64().unwrap();
    assert!((1e-5..5e-3).contains(&noise), "{noise}");
    assert_eq!(report["drift"]["bad"], false);
    assert!((report["set_up_us"].as_f64().unwrap() - 3e5).abs() < 3e4);
    assert_eq!(
        report["scale"]["gemm_flops_per_s"]["bf16"].as_f64(),
        Some(2f64.powi(48))
    );
    assert_eq!(
        report["rows"].as_u64().unwrap() as usize,
        read(&place.out).unwrap().len()
    );
    let text = place.measure("scripted", &["--force"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("run to run  median difference"), "{text}");
    assert!(text.contains("no model is trained on them"), "{text}");
}

#[test]
fn kills_lose_at_most_the_row_in_flight_and_every_journal_goes_on() {
    let whole = Place::new();
    let begin = Instant::now();
    done(&whole.measure("scripted:sleep_us=200", &JSON));
    // Kills come at any moment of a run, the final write included; some runs are left to finish.
    let latest = begin.elapsed().as_secs_f64() * 1.2;
    let expected: HashSet<_> = planned(&read(&whole.out).unwrap()).into_iter().collect();
    assert!(expected.len() > 270, "{}", expected.len());

    let mut random = Random::new(11, "kills");
    let (mut kills, mut mid_run, mut finished) = (0, 0, 0);
    while kills < 220 {
        let place = Place::new();
        let mut least = 0;
        loop {
            let mut child = place.command("scripted:sleep_us=200", &["--resume"]).spawn().unwrap();
            std::thread::sleep(Duration::from_secs_f64(latest * random.uniform()));
            let ended = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            let status = child.wait().unwrap();
            if ended || status.success() {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                assert!(status.success(), "{said}");
                break;
            }
            kills += 1;
            // Every line that was whole before is still there: only the end may be torn.
            let safe = match place.out.exists() {
                true => read(&place.out).unwrap().len().max(whole_rows(&place.journal())),
                false => whole_rows(&place.journal()),
            };
            assert!(safe >= least, "{safe} rows after {least}");
            mid_run += usize::from(safe > least);
            least = safe;
        }
        finished += 1;
        let rows = read(&place.out).unwrap();
        assert!(rows.len() >= least);
        let shapes = planned(&rows);
        let distinct: HashSet<_> = shapes.iter().copied().collect();
        assert_eq!(shapes.len(), distinct.len(), "a case was measured twice");
        assert_eq!(distinct, expected);
        let mut left: Vec<_> = fs::read_dir(place.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["mine.parquet", "small.toml"]);
    }
    assert!(
        // 100 of 220 on two busy cores.
        mid_run > 40,
        "{mid_run} of {kills} kills came between rows, {finished} runs finished"
    );
}

#[test]
fn a_kill_while_the_file_is_written_leaves_the_old_one_or_the_new() {
    let place = Place::new();
    // A journal of many rows, as a kill leaves it.
    let mut child = place.command("scripted:sleep_us=1000", &[]).spawn().unwrap();
    await_rows(&place, 200);
    child.kill().unwrap();
    child.wait().unwrap();
    let journal = fs::read(place.journal()).unwrap_or_default();
    let mut random = Random::new(12, "writes");
    let mut before = 0;
    for _ in 0..60 {
        let _ = fs::remove_file(&place.out);
        fs::write(place.journal(), &journal).unwrap();
        // The budget is over at once, so all that happens is the check, the probe and the write.
        let mut child = place
            .command("scripted", &["--resume", "--budget", "1ms"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_secs_f64(0.004 + 0.02 * random.uniform()));
        let _ = child.kill();
        child.wait().unwrap();
        match place.out.exists() {
            true => assert!(read(&place.out).unwrap().len() >= whole_rows(&place.journal())),
            false => {
                before += 1;
                assert!(place.journal().exists());
            }
        }
        done(&place.measure("scripted", &["--resume", "--budget", "1ms", "--format", "json"]));
        assert!(!place.journal().exists());
    }
    assert!(before > 0, "every kill came after the file was whole");
}

/// Waits until so many rows are safe.
fn await_rows(place: &Place, rows: usize) {
    while whole_rows(&place.journal()) < rows {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ctrl-C.
#[cfg(unix)]
fn interrupt(child: &Child) {
    signal(child, "-INT");
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_the_row_and_writes_the_file() {
    // `timeout` sends SIGTERM unless asked for another signal.
    for name in ["-INT", "-TERM"] {
        ends_with_its_file(name);
    }
}

#[cfg(unix)]
fn ends_with_its_file(name: &str) {
    let place = Place::new();
    let child = place.command("scripted:sleep_us=5000", &JSON).spawn().unwrap();
    await_rows(&place, 5);
    signal(&child, name);
    let report = done(&child.wait_with_output().unwrap());
    assert_eq!(report["ended"], "interrupted");
    let rows = read(&place.out).unwrap().len();
    assert!((5..290).contains(&rows), "{rows}");
    assert!(!place.journal().exists());
    let report = done(&place.measure("scripted", &["--resume", "--format", "json"]));
    assert_eq!(report["ended"], "complete");
    assert!(report["rows"].as_u64() > Some(rows as u64));
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_does_not_wait_for_the_row_in_flight() {
    let place = Place::new();
    // With rates, no case is set up before the first row.
    let rates = "[scale]\nfloor_us = 2.0\ngemm_flops_per_s = { bf16 = 4e14 }\n";
    fs::write(&place.plan, format!("{PLAN}\n{rates}")).unwrap();
    let a_row_takes = Duration::from_secs(60);
    let script = format!("scripted:sleep_us={}", a_row_takes.as_micros());
    let mut child = place.command(&script, &[]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // What is said in between is shown where the test fails.
    let mut until = |part: &str| loop {
        let line = said.next().expect("the program still speaks").unwrap();
        println!("{line}");
        if line.contains(part) {
            break;
        }
    };
    until("warming up");
    // What says so looks for an interrupt next; a second later the first call is in flight.
    std::thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    interrupt(&child);
    until("once more to end at once");
    interrupt(&child);
    until("--resume goes on");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < a_row_takes / 2);
    assert!(!place.out.exists());
    done(&place.measure("scripted", &["--resume", "--format", "json"]));
}

/// Rows are appended to a disk of 1 MiB in a namespace of the test's own, until something else has
/// filled it. A row takes 0.1 s, so the run would last half a minute: it does not end before, however
/// late a busy machine fills the disk.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_in_mid_run_costs_no_row_before() {
    // The superuser needs no user namespace, and may be forbidden one.
    let namespaces = [&["--mount"][..], &["--user", "--map-root-user", "--mount"]];
    let able = |namespace: &&[&str]| {
        let mut mount = Command::new("unshare");
        mount.args(*namespace).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        mount.output().is_ok_and(|output| output.status.success())
    };
    let Some(namespace) = namespaces.into_iter().find(able) else {
        return skip("full", "no namespace can be made (unshare)");
    };
    let place = Place::new();
    let script = r#"
        mount -t tmpfs -o size=1m none "$DISK"
        measure() { "$PROGRAM" measure --plan "$PLAN" --out "$DISK/mine.parquet" --resume --format json --device "$@"; }
        measure scripted:sleep_us=100000 &
        until [ "$(grep -c '^{"row"' "$DISK/mine.parquet.journal")" -ge 5 ]; do sleep 0.02; done
        head -c 2M /dev/zero > "$DISK/other"
        wait $!
        echo "ended with $?" >&2
        grep -c '^{"row".*}$' "$DISK/mine.parquet.journal" >&2
        rm "$DISK/other"
        measure scripted
    "#;
    let disk = place.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let output = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", script])
        .env("PROGRAM", cargo_bin!("shapewise"))
        .env("PLAN", &place.plan)
        .env("DISK", &disk)
        .output()
        .unwrap();
    let text = said(&output);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("error: "));
    let sentence = lines.next().unwrap_or_else(|| panic!("{text}"));
    assert!(sentence.contains("No space left on device"), "{sentence}");
    assert!(sentence.contains("go on with --resume"), "{sentence}");
    assert_eq!(lines.next(), Some("ended with 1"), "{text}");
    let safe: usize = lines.next().unwrap().parse().unwrap();
    assert!((5..290).contains(&safe), "{safe}");
    let report = done(&output);
    assert_eq!(report["ended"], "complete");
    let (rows, added) = (&report["rows"], &report["added_rows"]);
    assert_eq!(rows.as_u64().unwrap() - added.as_u64().unwrap(), safe as u64);
}

#[test]
fn what_cannot_end_well_is_told_at_once() {
    let place = Place::new();
    for (code, device, more, expected) in [
        (2, "gpu0", &[][..], "`--device` is `gpu0`; allowed: cuda:N"),
        (
            1,
            "scripted:wrong=1",
            &["--strict"],
            "the result of softmax (7, 129) bf16 is off by",
        ),
        (
            2,
            "scripted",
            &["--plan", "none.toml"],
            "`--plan` is `none.toml`; allowed: quick, standard, full",
        ),
    ] {
        let mut arguments = more.to_vec();
        if more.contains(&"--plan") {
            // A second --plan would be wrong usage.
            let mut command = Command::new(cargo_bin!("shapewise"));
            command
                .args(["measure", "--device", device, "--out"])
                .arg(&place.out)
                .args(more);
            let sentence = refused(code, &command.output().unwrap());
            assert!(sentence.contains(expected), "{sentence}");
            continue;
        }
        arguments.extend(JSON);
        let sentence = refused(code, &place.measure(device, &arguments));
        assert!(sentence.contains(expected), "{sentence}");
        assert!(!place.out.exists() && !place.journal().exists());
    }
    for usage in [&["--shard", "3/2"][..], &["--budget", "9"], &["--resume", "--force"]] {
        let output = place.measure("scripted", usage);
        assert_eq!(output.status.code(), Some(2), "{usage:?}");
    }
    done(&place.measure("scripted", &JSON));
    let sentence = refused(1, &place.measure("scripted", &JSON));
    assert!(sentence.contains("exists already; allowed: --resume"), "{sentence}");
    // One wrong path costs its rows and the exit code, not the table.
    let wrong = Place::new();
    let output = wrong.measure("scripted:wrong=1", &JSON);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["wrong_paths"][0]["path"], "softmax forward bf16");
    assert_eq!(report["rows"], read(&wrong.out).unwrap().len());
    // So does a device that is lost.
    let dead = Place::new();
    let output = dead.measure("scripted:dies=150", &JSON);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ended"], "device_lost");
    assert_eq!(report["rows"], read(&dead.out).unwrap().len());
    let sentence = refused(1, &place.measure("scripted:stack=scripted 2", &["--resume"]));
    assert!(
        sentence.contains("`stack` is `scripted 1`; allowed: `scripted 2`"),
        "{sentence}"
    );
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_told_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let sealed = place.folder.path().join("sealed");
    fs::create_dir(&sealed).unwrap();
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(sealed.join("probe"), "x").is_ok() {
        eprintln!("skipped: the superuser writes anywhere");
        return;
    }
    let sealed = Place {
        out: sealed.join("mine.parquet"),
        ..place
    };
    let sentence = refused(1, &sealed.measure("scripted", &[]));
    assert!(
        sentence.contains("mine.parquet.journal: Permission denied"),
        "{sentence}"
    );
}

#[test]
fn shards_merge_to_the_whole_plan() {
    let whole = Place::new();
    done(&whole.measure("scripted", &JSON));
    let place = Place::new();
    let mut files = Vec::new();
    for shard in 1..=3 {
        let out = place.folder.path().join(format!("{shard}.parquet"));
        let mut command = Command::new(cargo_bin!("shapewise"));
        command
            .args(["measure", "--device", "scripted", "--format", "json", "--plan"])
            .arg(&place.plan)
            .arg("--out")
            .arg(&out);
        command.args(["--shard", &format!("{shard}/3")]);
        let output = command.output().unwrap();
        let report = done(&output);
        assert_eq!(report["shard"], format!("{shard}/3"));
        files.push(out);
    }
    let import = |files: &[PathBuf], out: &str, more: &[&str]| {
        let mut command = Command::new(cargo_bin!("shapewise"));
        command
            .args(["import", "native"])
            .args(files)
            .arg("--out")
            .arg(place.folder.path().join(out));
        command.args(JSON).args(more).output().unwrap()
    };
    // The first file twice: exact duplicates are dropped.
    files.push(files[0].clone());
    let report = done(&import(&files, "merged.parquet", &[]));
    let rows = read(&place.folder.path().join("merged.parquet")).unwrap();
    assert_eq!(report["kept_rows"].as_u64().unwrap() as usize, rows.len());
    assert_eq!(report["skipped"][0]["reason"], "the same measurement once more");
    let merged: HashSet<_> = planned(&rows).into_iter().collect();
    let expected: HashSet<_> = planned(&read(&whole.out).unwrap()).into_iter().collect();
    assert_eq!(merged, expected);

    // Another stack is refused by name, unless both are asked for.
    let mut other = read(&files[0]).unwrap();
    for row in &mut other {
        row.stack = "scripted 2".into();
    }
    let path = place.folder.path().join("other.parquet");
    write(&path, &other).unwrap();
    files.push(path);
    let sentence = refused(1, &import(&files, "mixed.parquet", &[]));
    assert!(
        sentence.contains("other.parquet: `stack` is `scripted 2`; allowed: `scripted 1`, as in "),
        "{sentence}"
    );
    assert!(sentence.contains("1.parquet"), "{sentence}");
    let asked = ["--stack", "scripted 1", "scripted 2"];
    let report = done(&import(&files, "mixed.parquet", &asked));
    assert!(report["kept_rows"].as_u64().unwrap() as usize > rows.len());
}

#[cfg(feature = "train")]
#[test]
fn no_model_is_trained_on_scripted_rows() {
    let place = Place::new();
    done(&place.measure("scripted", &JSON));
    let mut command = Command::new(cargo_bin!("shapewise"));
    command
        .args(["train", "--data"])
        .arg(&place.out)
        .arg("--out")
        .arg(place.folder.path().join("model"));
    let sentence = refused(1, &command.output().unwrap());
    assert!(
        sentence.contains("`gpu` is `scripted`; allowed: rows that a device has timed"),
        "{sentence}"
    );
    assert!(!place.folder.path().join("model/card.json").exists());
}
