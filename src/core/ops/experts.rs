//! Fused mixture-of-experts layers: every routed token through its experts, in one grouped kernel a projection.

use super::dimension::{Dimension, choice, count, flag};
use super::{Dtype, Op, product};
use crate::units::{Bytes, Flops};
use std::cell::RefCell;
use std::fmt;

named_enum! {
    /// How a router spreads tokens over experts.
    ///
    /// The skewed loads are those of aiconfigurator's tables: tokens of an expert follow a bounded power law, and the
    /// rank is the one with the most.
    #[derive(Default)]
    RouterLoad {
        /// Every expert gets as many tokens.
        Even = "even",
        /// A power law of exponent 1.01.
        #[default]
        PowerLaw101 = "power_law_1.01",
        /// A power law of exponent 1.2.
        PowerLaw120 = "power_law_1.2",
    }
}

impl RouterLoad {
    /// The exponent of the power law; 0 of an even load.
    pub const fn exponent(self) -> f64 {
        match self {
            Self::Even => 0.0,
            Self::PowerLaw101 => 1.01,
            Self::PowerLaw120 => 1.2,
        }
    }
}

/// The routed experts of one layer on one rank: gather, up projection, activation, down projection, weighted sum.
///
/// The router and shared experts are operators of their own. `tokens` is how many tokens the ranks that share the
/// experts route together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Experts {
    /// Tokens that the ranks which share the experts route together.
    pub tokens: u64,
    /// Width of the residual stream, in elements.
    pub hidden: u64,
    /// Inner width of one expert, in elements.
    pub width: u64,
    /// Routed experts of the layer.
    pub experts: u64,
    /// Experts that a token visits.
    pub top_k: u64,
    /// Ranks that an expert's width is divided among.
    pub width_shards: u64,
    /// Ranks that the experts are divided among.
    pub expert_shards: u64,
    /// Whether a gate multiplies the activation, which doubles the up projection.
    pub gated: bool,
    /// How unevenly the router spreads the tokens.
    pub load: RouterLoad,
    /// Number format of weights and tokens.
    pub dtype: Dtype,
}

/// Some experts of a rank with as many tokens each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stratum {
    /// Tokens of each expert; less than 1 where not every expert gets one.
    pub tokens: f64,
    /// How many experts.
    pub experts: f64,
}

/// Strata of a skewed load: even shares of three quarters of the experts, ever smaller ones of the busiest quarter.
const STRATA: usize = 32;

/// What a rank's experts get to do.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    strata: [Stratum; STRATA + 1],
    used: usize,
    /// Tokens that the rank's experts get in all, each counted once an expert.
    pub routed: f64,
    /// Experts of the rank that get a token.
    pub visited: f64,
    /// Tokens of the busiest expert.
    pub largest: f64,
}

impl Routing {
    fn of(strata: impl IntoIterator<Item = Stratum>, rounded: bool) -> Self {
        let mut routing = Self {
            strata: [Stratum::default(); STRATA + 1],
            used: 0,
            routed: 0.0,
            visited: 0.0,
            largest: 0.0,
        };
        for stratum in strata {
            routing.strata[routing.used] = stratum;
            routing.used += 1;
            let share = visited(stratum.tokens, rounded);
            routing.routed += stratum.tokens * stratum.experts;
            routing.visited += share * stratum.experts;
            routing.largest = routing.largest.max(stratum.tokens);
        }
        routing.visited = routing.visited.max(1.0);
        routing
    }

    /// Tiles of `rows` tokens that the experts' tokens fill, the last of each expert in part.
    pub fn tiles(&self, rows: f64) -> f64 {
        let tiles = self.strata[..self.used].iter().map(|stratum| {
            let filled = (stratum.tokens.max(1.0) / rows - 1e-9).ceil();
            filled * stratum.experts * stratum.tokens.min(1.0)
        });
        tiles.sum::<f64>().max(1.0)
    }
}

thread_local! {
    /// The routing that was last asked for: one prediction asks for that of one layer ten times, and powers take long.
    static LAST: RefCell<Option<(Experts, Routing)>> = const { RefCell::new(None) };
}

/// The share of experts with `tokens` each that get one, where whole numbers of tokens are dealt.
fn visited(tokens: f64, rounded: bool) -> f64 {
    match rounded {
        true if tokens < 0.5 => 0.0,
        true => 1.0,
        false => tokens.min(1.0),
    }
}

impl Experts {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        count!(Experts, tokens, 1, "tokens"),
        count!(Experts, hidden, 1, "elements"),
        count!(Experts, width, 1, "elements"),
        count!(Experts, experts, 1, 1 << 16, "experts"),
        count!(Experts, top_k, 1, 1 << 16, "experts"),
        count!(Experts, width_shards, 1, "GPUs"),
        count!(Experts, expert_shards, 1, "GPUs"),
        flag!(Experts, gated),
        choice!(Experts, load, RouterLoad),
        choice!(Experts, dtype, Dtype),
    ];

    /// A gated layer on one rank under an even load.
    pub const fn new(tokens: u64, hidden: u64, width: u64, experts: u64, top_k: u64) -> Self {
        Self {
            tokens,
            hidden,
            width,
            experts,
            top_k,
            width_shards: 1,
            expert_shards: 1,
            gated: true,
            load: RouterLoad::Even,
            dtype: Dtype::Bf16,
        }
    }

    /// Experts of this rank.
    pub const fn rank_experts(&self) -> u64 {
        self.experts.div_ceil(self.expert_shards)
    }

    /// Width of an expert on this rank.
    pub const fn rank_width(&self) -> u64 {
        self.width.div_ceil(self.width_shards)
    }

    /// Projections into the expert's width: two with a gate.
    pub const fn up_projections(&self) -> f64 {
        if self.gated { 2.0 } else { 1.0 }
    }

    /// How the tokens fall to the experts of this rank.
    pub fn routing(&self) -> Routing {
        LAST.with_borrow_mut(|last| match last {
            Some((of, routing)) if of == self => *routing,
            _ => last.insert((*self, self.spread())).1,
        })
    }

    fn spread(&self) -> Routing {
        let [tokens, experts, shards] = [self.tokens, self.experts, self.expert_shards].map(|size| size as f64);
        let routed = tokens * self.top_k as f64;
        let own = self.rank_experts() as f64;
        let exponent = self.load.exponent();
        if exponent == 0.0 {
            let each = routed / experts;
            let (tokens, experts) = if each >= 1.0 {
                (each, own)
            } else {
                // No expert gets two tokens; a rank with less than one token gets one.
                (1.0, (routed / shards).max(1.0))
            };
            return Routing::of([Stratum { tokens, experts }], false);
        }
        // Bounds of the power law, as the tables were made.
        let dealt = routed > experts;
        let (least, most) = if dealt {
            (1.0, (0.8 * tokens).max(1.0001))
        } else {
            (0.01, 2.0)
        };
        let power = 1.0 - exponent;
        let (low, high) = (f64::powf(least, power), f64::powf(most, power));
        let busy = (4.0 / experts).min(1.0);
        let half = STRATA / 2;
        let edge = |index: usize| match index {
            index if index < half => 0.75 * index as f64 / half as f64,
            STRATA => 1.0,
            index => 1.0 - 0.25 * busy.powf((index - half) as f64 / (half - 1) as f64),
        };
        let mut strata = [Stratum::default(); STRATA + 1];
        let mut total = 0.0;
        let mut to = edge(0);
        for (index, stratum) in strata[..STRATA].iter_mut().enumerate() {
            let from = std::mem::replace(&mut to, edge(index + 1));
            let middle = f64::midpoint(from, to);
            let tokens = (low + (high - low) * middle).powf(1.0 / power);
            *stratum = Stratum {
                tokens,
                experts: (to - from) * experts,
            };
            total += tokens * stratum.experts;
        }
        // The busiest rank has the busiest expert and an even share of the others.
        let share = if experts > 1.0 {
            (own - 1.0) / (experts - 1.0)
        } else {
            1.0
        };
        let spread = shards > 1.0;
        for stratum in &mut strata[..STRATA] {
            stratum.tokens *= routed / total;
            if spread {
                stratum.experts *= share;
            }
        }
        if spread {
            strata[STRATA] = Stratum {
                tokens: strata[STRATA - 1].tokens,
                experts: 1.0,
            };
        }
        Routing::of(strata, dealt)
    }

    /// Tokens with an expert on this rank.
    pub fn rank_tokens(&self, routing: &Routing) -> f64 {
        let tokens = self.tokens as f64;
        if self.expert_shards == 1 {
            return tokens;
        }
        let here = if self.load == RouterLoad::Even {
            routing.routed
        } else {
            let share = routing.routed / (tokens * self.top_k as f64);
            tokens * (1.0 - (1.0 - share).max(0.0).powf(self.top_k as f64))
        };
        here.round().clamp(1.0, tokens)
    }

    /// The projections of every routed token.
    pub fn flops(&self) -> Flops {
        let weights = product(&[self.hidden, self.rank_width()]) * (self.up_projections() + 1.0);
        Flops::from_flops(2.0 * self.routing().routed * weights)
    }

    /// The weights of the experts that get a token, the tokens once and their sums once, in 16 bits.
    pub fn bytes(&self) -> Bytes {
        let routing = self.routing();
        let tokens = self.rank_tokens(&routing) * self.hidden as f64 * 2.0;
        self.visited_bytes(&routing) + Bytes::from_bytes(2.0 * tokens)
    }

    /// The weights of the experts that get a token.
    pub fn weight_bytes(&self) -> Bytes {
        self.visited_bytes(&self.routing())
    }

    fn visited_bytes(&self, routing: &Routing) -> Bytes {
        let weights = product(&[self.hidden, self.rank_width()]) * (self.up_projections() + 1.0);
        let [_, size] = self.dtype.operand_sizes();
        Bytes::from_bytes(routing.visited * weights * size)
    }
}

impl fmt::Display for Experts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tokens, hidden, width) = (self.tokens, self.hidden, self.width);
        write!(
            f,
            "experts t {tokens} h {hidden} f {width} e {} top {}",
            self.experts, self.top_k
        )?;
        if self.width_shards > 1 {
            write!(f, " tp {}", self.width_shards)?;
        }
        if self.expert_shards > 1 {
            write!(f, " ep {}", self.expert_shards)?;
        }
        if !self.gated {
            write!(f, " ungated")?;
        }
        if self.load != RouterLoad::Even {
            write!(f, " {}", self.load)?;
        }
        write!(f, " {}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_load_visits_as_many_experts_as_there_are_routed_tokens() {
        let routing = |tokens| Experts::new(tokens, 4096, 1536, 128, 8).routing();
        assert_eq!((routing(1).visited, routing(1).largest), (8.0, 1.0));
        assert_eq!(routing(16).visited, 128.0);
        let many = routing(4096);
        assert_eq!((many.visited, many.largest, many.routed), (128.0, 256.0, 32_768.0));
        assert_eq!((many.tiles(64.0), many.tiles(100.0)), (512.0, 384.0));
    }

    #[test]
    fn a_skewed_load_routes_as_much_to_fewer_experts() {
        for load in [RouterLoad::PowerLaw101, RouterLoad::PowerLaw120] {
            for tokens in [1, 7, 64, 16_384] {
                let even = Experts::new(tokens, 4096, 1536, 128, 8);
                let skewed = Experts { load, ..even };
                let (a, b) = (even.routing(), skewed.routing());
                assert!((a.routed / b.routed - 1.0).abs() < 1e-9, "{load} {tokens}");
                // With fewer choices than experts both are expectations below one token.
                if tokens > 16 {
                    assert!(b.largest >= a.largest && b.visited <= a.visited + 1e-9);
                }
            }
        }
    }

    #[test]
    fn the_busiest_of_eight_ranks_has_more_than_an_eighth_of_a_skewed_load() {
        let even = Experts {
            expert_shards: 8,
            ..Experts::new(4096, 4096, 1536, 128, 8)
        };
        assert_eq!(even.routing().routed, 4096.0);
        assert_eq!(even.rank_tokens(&even.routing()), 4096.0);
        let skewed = Experts {
            load: RouterLoad::PowerLaw120,
            ..even
        };
        assert!(skewed.routing().routed > 4096.0);
        assert!(skewed.flops() > even.flops());
    }

    #[test]
    fn a_layer_of_one_expert_is_a_dense_mlp() {
        let op = Experts::new(512, 1024, 4096, 1, 1);
        assert_eq!(op.flops().flops(), 2.0 * 512.0 * 3.0 * 1024.0 * 4096.0);
        let weights = 2.0 * 3.0 * 1024.0 * 4096.0;
        assert_eq!(op.bytes().bytes(), weights + 2.0 * 2.0 * 512.0 * 1024.0);
    }
}
