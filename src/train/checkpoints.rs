//! Finished nets of a run, kept between kills, under a name that follows from the rows and the options.

use crate::dataset::{Row, digest};
use crate::error::{Result, write_atomically};
use crate::random::fnv1a;
use crate::regressor::net::Net;
use crate::train::events::Event;
use crate::train::fit::{Backend, Computer};
use crate::train::options::Options;
use std::path::PathBuf;

/// One run as the sub-models see it.
pub struct Run<'a> {
    pub(super) seed: u64,
    pub(super) backend: Backend,
    pub(super) computer: Computer,
    pub(super) checkpoints: PathBuf,
    pub(super) listener: &'a (dyn Fn(Event<'_>) + Sync),
}

impl Run<'_> {
    pub(super) fn tell(&self, event: Event<'_>) {
        (self.listener)(event);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.checkpoints.join(format!("{}.json", name.replace(' ', "-")))
    }

    pub(super) fn checkpoint(&self, name: &str) -> Option<Net> {
        let text = std::fs::read_to_string(self.path(name)).ok()?;
        let net = serde_json::from_str(&text).ok()?;
        self.tell(Event::Resumed { net: name });
        Some(net)
    }

    pub(super) fn save_checkpoint(&self, name: &str, net: &Net) -> Result<()> {
        let text = serde_json::to_string(net).expect("a net has only plain fields");
        write_atomically(&self.path(name), text.as_bytes())
    }
}

/// A name for the checkpoints of exactly this run: a digest of all that its nets follow from, as canonical JSON.
pub(super) fn fingerprint(rows: &[Row], options: &Options) -> String {
    let run = serde_json::json!({
        "rows": digest(rows),
        "recipes": shapewise_data::STACKS.text,
        "base": options.base.as_ref().map(|base| &base.card),
        "gpu": options.gpu,
        "across": options.across,
        "seed": options.seed,
        "backend": options.backend.name(),
        "epochs": options.epochs,
        "labels": options.labels,
        "keep_out": options.keep_out,
        "choices": digest(&options.choices),
        "version": env!("CARGO_PKG_VERSION"),
    });
    format!("{:016x}", fnv1a(run.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuCatalog;

    #[test]
    fn checkpoints_are_those_of_one_run() {
        let options = Options {
            out: PathBuf::from("here"),
            gpu: None,
            gpus: GpuCatalog::built_in(),
            across: false,
            choices: vec![],
            base: None,
            seed: 7,
            backend: Backend::Cpu,
            epochs: None,
            labels: None,
            keep_out: None,
        };
        let name = fingerprint(&[], &options);
        let elsewhere = Options {
            out: PathBuf::from("there"),
            ..options.clone()
        };
        assert_eq!(name, fingerprint(&[], &elsewhere), "a folder may move");
        for other in [
            Options {
                seed: 8,
                ..options.clone()
            },
            Options {
                epochs: Some(1),
                ..options.clone()
            },
            Options {
                keep_out: Some(0.1),
                ..options.clone()
            },
            Options {
                gpu: Some("h200".into()),
                ..options
            },
        ] {
            assert_ne!(name, fingerprint(&[], &other));
        }
    }
}
