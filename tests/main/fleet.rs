//! A fleet: `docs/measure.sbatch` on a real Slurm of one node, which this test starts as its own user.

use crate::cli::{data, program};
use crate::skip::skip;
use shapewise::dataset::{Cache, Role, read};
use shapewise::ops::Op;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Tasks of the array.
const TASKS: usize = 4;

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(100);

/// Cases that follow from the plan alone: its rates are given, not probed, and no round adds a case.
const PLAN: &str = r#"
name = "fleet"
budget = "5m"
soak = "0s"
anchors = 2
anchor_period = "20s"
shortest_us = 0.2
longest_us = 3000
dtypes = { fp32 = 1.0 }

[sets]
transformer = 48
sobol = 96
memory = 24

[scale]
floor_us = 4.0
gemm_flops_per_s = { fp32 = 1.7e10 }
attention_flops_per_s = { fp32 = 4e9 }
memory_bytes_per_s = 4e9
"#;

/// Where a program of the system lies; daemons are in folders that are not on everyone's path.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let files = folders.map(|folder| Path::new(folder).join(name));
    files.into_iter().find(|file| file.is_file())
}

/// Munge, the controller and one node; ended when this goes.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Munge serves only from folders that everyone may enter, and trusts only keys that no other user may read.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        for name in ["munge", "state", "spool", "bin"] {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        let key: Vec<u8> = (0..32).flat_map(|_| std::process::id().to_le_bytes()).collect();
        fs::write(at("key"), key).unwrap();
        fs::set_permissions(at("key"), Permissions::from_mode(0o400)).unwrap();
        symlink(program(), at("bin/shapewise")).unwrap();
        fs::write(at("plan.toml"), PLAN).unwrap();
        let printed = |name: &str, option: &str| {
            let output = Command::new(name).arg(option).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let (host, user) = (printed("hostname", "-s"), printed("id", "-un"));
        let [controller, node] = free_ports();
        let root = folder.path().display();
        for gpu in 0..TASKS {
            fs::write(at(&format!("gpu{gpu}")), "").unwrap();
        }
        let last = TASKS - 1;
        fs::write(at("gres.conf"), format!("Name=gpu File={root}/gpu[0-{last}]\n")).unwrap();
        let settings = format!(
            "ClusterName=fleet
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/controller.pid
SlurmdPidFile={root}/node.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=1
ReturnToService=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 Gres=gpu:{TASKS}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"
        );
        fs::write(at("slurm.conf"), settings).unwrap();
        let mut cluster = Self {
            folder,
            daemons: Vec::new(),
        };
        let root = cluster.folder.path().display().to_string();
        cluster.daemon(
            "munged",
            &[
                "--foreground".to_owned(),
                format!("--key-file={root}/key"),
                format!("--socket={root}/munge/socket"),
                format!("--log-file={root}/munge.log"),
                format!("--pid-file={root}/munge/pid"),
                format!("--seed-file={root}/munge.seed"),
            ],
        );
        let socket = cluster.path("munge/socket");
        cluster.until("munge has its socket", || socket.exists());
        cluster.daemon("slurmctld", &["-D".to_owned(), "-i".to_owned()]);
        cluster.daemon("slurmd", &["-D".to_owned()]);
        cluster.until("the node is idle", || {
            cluster.asked(&["sinfo", "-h", "-o", "%T"]).1.trim() == "idle"
        });
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn part(&self, task: usize) -> PathBuf {
        self.path(&format!("part-{task}.parquet"))
    }

    fn journal(&self, task: usize) -> PathBuf {
        self.path(&format!("part-{task}.parquet.journal"))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(found(name).unwrap());
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.path("bin").display());
        command
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, name: &str, args: &[String]) {
        let log = fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command(name);
        command.args(args).stderr(log.try_clone().unwrap()).stdout(log);
        self.daemons.push(command.spawn().unwrap());
    }

    /// Whether a command of Slurm succeeded, and all that it said.
    fn asked(&self, words: &[&str]) -> (bool, String) {
        let output = self.command(words[0]).args(&words[1..]).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), said)
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "waiting until {what}: {}", self.logs());
            sleep(Duration::from_millis(10));
        }
    }

    /// What tasks and daemons have said.
    fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "log" || end == "out"));
        files.sort();
        let shown = files.iter().map(|file| {
            let text = String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
            format!("\n== {}\n{text}", file.display())
        });
        shown.collect()
    }

    /// The process that measures the shard of a task.
    fn measuring(&self, task: usize) -> Option<String> {
        let name = format!("part-{task}.parquet");
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let found = processes.map(|entry| entry.path()).find(|process| {
            let inside = fs::read_link(process.join("cwd"));
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut words = line.split('\0');
            inside.is_ok_and(|cwd| cwd == self.folder.path())
                && words.next().is_some_and(|program| program.ends_with("shapewise"))
                && words.any(|word| word == name)
        });
        Some(found?.file_name()?.to_str()?.to_owned())
    }
}

/// Ports that were free a moment ago.
fn free_ports() -> [u16; 2] {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    [listen(), listen()].map(|listener| listener.local_addr().unwrap().port())
}

/// The cases of the plan that a table has rows of.
fn cases(path: &Path) -> BTreeSet<(Op, bool, u32)> {
    let rows = read(path).unwrap();
    let about = rows.iter().map(|row| (row.op, row.measured.clone().unwrap()));
    let planned = about.filter(|(_, about)| about.role == Role::Plan);
    planned
        .map(|(op, about)| (op, about.cache == Cache::Cold, about.rank))
        .collect()
}

fn rows_of(journal: &Path) -> usize {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("{\"row\"")).count()
}

#[test]
fn an_array_of_tasks_measures_what_one_run_does_though_one_is_killed() {
    let needed = [
        "munged",
        "slurmctld",
        "slurmd",
        "sbatch",
        "srun",
        "scontrol",
        "hostname",
    ];
    if let Some(absent) = needed.into_iter().find(|name| found(name).is_none()) {
        return skip("slurm", format!("{absent} is not installed (slurm-wlm, munge)"));
    }
    let cluster = Cluster::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measure.sbatch");
    let array = format!("--array=1-{TASKS}");
    let output = cluster
        .command("sbatch")
        .args(["--parsable", &array])
        .arg(script)
        .env("DEVICE", "cpu")
        .env("PLAN", cluster.path("plan.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job = String::from_utf8(output.stdout).unwrap().trim().to_owned();

    // One dies at once in the middle of its shard, as a node may, and is queued again.
    let killed = 1;
    cluster.until("a task has some rows", || rows_of(&cluster.journal(killed)) >= 3);
    let process = cluster.measuring(killed).expect("it measures");
    assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
    let kept = rows_of(&cluster.journal(killed));
    assert!(!cluster.part(killed).exists(), "it was killed after its end");
    let task = format!("{job}_{killed}");
    cluster.until("the task is queued again", || {
        cluster.asked(&["scontrol", "requeue", &task]).0
    });
    let done = |task| cluster.part(task).exists() && !cluster.journal(task).exists();
    cluster.until("every shard is measured", || (1..=TASKS).all(done));
    assert!(
        cluster.logs().contains(&format!("going on after {kept} rows")),
        "{}",
        cluster.logs()
    );

    // The parts of an array are those of one run: none is missing, none is in two of them.
    let merged = cluster.path("mine.parquet");
    let parts: Vec<_> = (1..=TASKS).map(|task| cluster.part(task)).collect();
    let names: Vec<_> = parts.iter().map(|part| part.display().to_string()).collect();
    data(&format!("import native {} --out {}", names.join(" "), merged.display()));
    let whole = cluster.path("whole.parquet");
    let output = cluster
        .command("env")
        .args([
            "shapewise",
            "measure",
            "--device",
            "cpu",
            "--plan",
            "plan.toml",
            "--out",
            "whole.parquet",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shards: Vec<_> = parts.iter().map(|part| cases(part)).collect();
    let (all, one) = (cases(&merged), cases(&whole));
    assert!(shards.iter().all(|shard| shard.len() >= 10), "{shards:?}");
    assert_eq!(
        shards.iter().map(BTreeSet::len).sum::<usize>(),
        all.len(),
        "shards overlap"
    );
    assert_eq!(all, one);
    eprintln!("{} cases in {TASKS} tasks, one killed after {kept} rows", all.len());
}
