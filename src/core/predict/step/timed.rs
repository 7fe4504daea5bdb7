//! What a measurement of a whole model times, as a function of the constants of a framework.

use super::{Lanes, Ledger, ledger};
use crate::arch::{Architecture, ITERATION_TOKENS, Mode, Workload};
use crate::error::Result;
use crate::framework::{Constant, Framework};
use crate::predict::Predictor;
use crate::units::Seconds;

/// The load of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that run at once on one data-parallel rank.
    pub concurrency: u64,
    /// Requests sent for each that runs: over 1 where an engine is full and the others wait for a place.
    pub sent: f64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens that a request generates.
    pub output: u64,
    /// Tokens that a decoding step gives it.
    pub kept_tokens: f64,
}

impl Load {
    /// Requests in flight beside one.
    const fn others(&self) -> f64 {
        self.concurrency.saturating_sub(1) as f64
    }

    /// Prompts of so many tokens that share a pass: those that take the places of requests that end in one step.
    pub fn prompts_at_once(&self, tokens: u64) -> u64 {
        let ending = self.concurrency as f64 * self.kept_tokens / self.output.max(1) as f64;
        (ending.round() as u64).min(ITERATION_TOKENS / tokens.max(1)).max(1)
    }

    /// Time per token of a request where a decode step of all takes `decode` and each prompt `prefill` of the pass that it
    /// shares.
    pub fn token(&self, framework: &Framework, decode: Seconds, prefill: Seconds) -> Seconds {
        let others = self.others() / self.output.max(1) as f64;
        decode / self.kept_tokens + prefill * (framework.get(Constant::OtherPrefills) * others)
    }

    /// Time to the first token with the wait for a place, of requests that take `first` and `token` once they have one: by
    /// Little's law each takes as many times as long as requests are sent for each that runs.
    pub fn waited(&self, first: Seconds, token: Seconds) -> Seconds {
        first * self.sent + token * (self.output as f64 * (self.sent - 1.0))
    }

    /// Time to the first token of a request that has a place where the prompt pass of one takes `prefill`.
    pub fn first_token(&self, framework: &Framework, decode: Seconds, prefill: Seconds) -> Seconds {
        let others = self.others();
        let get = |constant| framework.get(constant);
        let ahead = match others > 0.0 {
            true => get(Constant::Queueing) * others.powf(get(Constant::QueueingGrowth)),
            false => 0.0,
        };
        let steps = get(Constant::FirstTokenSteps) * decode.secs();
        let fixed = get(Constant::FirstTokenMs) * 1e-3;
        let waited = prefill.secs() * ahead + steps + fixed;
        prefill + Seconds::from_secs(waited * get(Constant::FirstToken))
    }
}

/// The terms of what was timed.
#[derive(Clone, Debug, PartialEq)]
pub enum Timed {
    /// A step: an optimizer step, one batch of prompts, one token of every sequence.
    Step(Box<Ledger>),
    /// Time per token of a request beside other requests: its decode step, and prompt passes of others in between.
    Token {
        /// One decode step of all requests in flight.
        decode: Box<Ledger>,
        /// A pass of the prompts that share one.
        prefill: Box<Ledger>,
        /// How many they are.
        prompts: u64,
        /// The load.
        load: Load,
    },
    /// Time to the first token of a request beside other requests.
    FirstToken {
        /// The prompt pass of one request.
        prefill: Box<Ledger>,
        /// One decode step of all requests in flight.
        decode: Box<Ledger>,
        /// The load.
        load: Load,
    },
    /// Time of a static batch, of which all requests run at once.
    Batch {
        /// The prompt pass of all requests.
        prefill: Box<Ledger>,
        /// One decode step of all requests.
        decode: Box<Ledger>,
        /// Decode steps of each request.
        steps: f64,
    },
}

impl Timed {
    /// The terms of a step.
    pub fn step(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<Self> {
        ledger(predictor, architecture, workload).map(|ledger| Self::Step(Box::new(ledger)))
    }

    /// The terms of a served request: per token for a decode workload, to the first token for a prefill workload.
    pub fn served(predictor: &Predictor, architecture: &Architecture, workload: &Workload, load: Load) -> Result<Self> {
        let tokens = match workload.mode {
            Mode::Decode => *workload,
            Mode::Train | Mode::Prefill => Workload {
                mode: Mode::Decode,
                batch: load.concurrency.max(1),
                seq: 1,
                context: load.prompt + load.output / 2,
                cp: 1,
                ..*workload
            },
        };
        let prompt = load.prompt.max(1);
        let pass = |prompts| ledger(predictor, architecture, &workload.prompts(prompts, prompt)).map(Box::new);
        let decode = Box::new(ledger(predictor, architecture, &tokens)?);
        Ok(match workload.mode {
            Mode::Decode => {
                let prompts = load.prompts_at_once(prompt);
                Self::Token {
                    decode,
                    prefill: pass(prompts)?,
                    prompts,
                    load,
                }
            }
            Mode::Train | Mode::Prefill => Self::FirstToken {
                prefill: pass(1)?,
                decode,
                load,
            },
        })
    }

    /// The terms of a static batch, of which the workload is a decode step.
    pub fn batch(predictor: &Predictor, architecture: &Architecture, workload: &Workload, load: Load) -> Result<Self> {
        let prompts = workload.prompts(workload.batch, load.prompt);
        Ok(Self::Batch {
            prefill: Box::new(ledger(predictor, architecture, &prompts)?),
            decode: Box::new(ledger(predictor, architecture, workload)?),
            steps: load.output.saturating_sub(1) as f64 / load.kept_tokens,
        })
    }

    /// Share of the prompt's own pass in a time to the first token; 0 of all other times.
    pub fn own_pass(&self, framework: &Framework) -> f64 {
        match self {
            Self::FirstToken { prefill, .. } => (Lanes::of(prefill, framework).total / self.time(framework)).min(1.0),
            Self::Step(_) | Self::Token { .. } | Self::Batch { .. } => 0.0,
        }
    }

    /// The time under a framework.
    pub fn time(&self, framework: &Framework) -> Seconds {
        let total = |ledger: &Ledger| Lanes::of(ledger, framework).total;
        match self {
            Self::Step(ledger) => total(ledger),
            Self::Token {
                decode,
                prefill,
                prompts,
                load,
            } => load.token(framework, total(decode), total(prefill) / *prompts as f64),
            Self::FirstToken { prefill, decode, load } => load.first_token(framework, total(decode), total(prefill)),
            Self::Batch { prefill, decode, steps } => total(prefill) + total(decode) * *steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_share_a_pass_where_several_requests_end_in_a_step() {
        let load = |concurrency, output, kept_tokens| Load {
            concurrency,
            sent: 1.0,
            prompt: 50,
            output,
            kept_tokens,
        };
        for (load, tokens, prompts) in [
            (load(512, 1024, 1.0), 50, 1),
            (load(256, 51, 1.0), 50, 5),
            (load(256, 51, 2.0), 50, 10),
            // As many as an iteration takes, and one that is longer.
            (load(1024, 1, 1.0), 2048, 4),
            (load(1024, 1, 1.0), 10000, 1),
        ] {
            assert_eq!(load.prompts_at_once(tokens), prompts, "{load:?}");
        }
    }
}
