//! Why an estimate is less certain than the error table of its model.

named_enum! {
    /// A reason why an estimate is less certain than the error table of its model.
    #[non_exhaustive]
    Caveat {
        /// A dimension lies outside the range of the training shapes.
        OutOfDomain = "out_of_domain",
        /// Learned on another GPU.
        OtherGpu = "other_gpu",
        /// Learned in another number format of as many bits.
        OtherDtype = "other_dtype",
        /// Learned in a wider or narrower number format, whose kernels are others.
        OtherWidth = "other_width",
        /// Learned in another operand layout.
        OtherLayout = "other_layout",
        /// A dimension along which an operand is contiguous is aligned worse than any training shape, or odd; the
        /// penalty is carried over from the GPU where odd sizes were measured, or from another sweep there.
        Alignment = "alignment",
        /// Odd sizes were measured on no GPU of this maker; no penalty is applied.
        AlignmentUnknown = "alignment_unknown",
        /// Batched GEMM, learned from single GEMMs and the batched ones of another GPU.
        Batched = "batched",
        /// A head size without measurements on this stack.
        HeadSize = "head_size",
        /// No fused kernel takes heads of this size; unfused kernels run, whose scores go through memory.
        Unfused = "unfused",
        /// A mask or a prefill on a cached prefix without measurements on this stack.
        Mask = "mask",
        /// Several queries of a sequence against a longer cache: timed as one query of so many more heads.
        FewQueries = "few_queries",
        /// A sliding window on a stack that was measured without: the time without it, by the tiles that are read.
        Window = "window",
        /// Backward attention from the forward time, by a ratio measured on this GPU or the nearest one.
        BackwardFromForward = "backward_from_forward",
        /// The kernel of training from that of an engine, by a ratio measured on this GPU or one that runs the same.
        TrainedFromServed = "trained_from_served",
        /// Linear attention over sequences whose states change otherwise than those that were measured.
        OtherRecurrence = "other_recurrence",
        /// The same of one new token.
        OtherRecurrenceDecode = "other_recurrence_decode",
        /// Mamba-2 over sequences from Kimi Delta Attention, by a ratio that two shapes gave.
        RatioOfRecurrences = "ratio_of_recurrences",
        /// Prompts of a module that was timed with the host's launches, which an engine hides.
        TimedWithHost = "timed_with_host",
        /// A memory-bound kernel or an MoE layer of another library than the one that runs it.
        OtherProvider = "other_provider",
        /// An MoE layer of another model than those that were timed in its format, which are few.
        OtherLayer = "other_layer",
        /// The backward pass of a kernel from its forward time, by an assumed ratio.
        BackwardAssumed = "backward_assumed",
        /// The nets said less than the dense peak or the compulsory traffic allows, which is the answer instead.
        Physics = "physics",
        /// No learned model; a roofline at reachable bandwidth.
        NotLearned = "not_learned",
        /// Traffic to host memory and Adam on the CPU, by bandwidths: no run that offloads was measured.
        Offload = "offload",
        /// No run of the framework with models of this kind was compared on GPUs of this generation.
        UnseenGpu = "unseen_gpu",
        /// The longest run that was compared is less than a quarter as long.
        UnseenLength = "unseen_length",
        /// No run in this number format was compared.
        UnseenFormat = "unseen_format",
        /// No run of which a replica spans several nodes was compared.
        UnseenNodes = "unseen_nodes",
        /// Adapters are trained: no constant was fitted to such a run.
        Adapters = "adapters",
        /// Draft tokens are verified: no constant was fitted to such a run.
        Drafts = "drafts",
        /// Adapters on Ada, where published steps are far from what is predicted.
        AdaptersOnAda = "adapters_on_ada",
    }
}

impl Caveat {
    /// Whether it is of a whole step, not of one of its operators.
    pub const fn is_of_step(self) -> bool {
        matches!(
            self,
            Self::UnseenGpu
                | Self::UnseenLength
                | Self::UnseenFormat
                | Self::UnseenNodes
                | Self::Adapters
                | Self::Drafts
                | Self::AdaptersOnAda
        )
    }

    /// The sentence that is printed.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfDomain => "a dimension lies outside the training shapes",
            Self::OtherGpu => "learned on another GPU",
            Self::OtherDtype => "learned in another number format",
            Self::OtherWidth => "learned in a wider or narrower number format",
            Self::OtherLayout => "learned in another operand layout",
            Self::Alignment => "what misaligned sizes cost is carried over from where odd ones were measured",
            Self::AlignmentUnknown => "misaligned, and odd sizes were measured on no GPU of this maker",
            Self::Batched => "batched GEMM, carried over from another GPU's batched GEMMs",
            Self::HeadSize => "head size not measured on this stack",
            Self::Unfused => {
                "no fused kernel takes this head size (multiples of 8 up to 256): unfused kernels, by their traffic"
            }
            Self::Mask => "mask or cached prefix not measured on this stack",
            Self::FewQueries => "queries against a longer cache, as one query of so many more heads",
            Self::Window => "sliding window by its tiles: this stack was measured without",
            Self::TrainedFromServed => "attention of training by its measured ratio to an engine's",
            Self::BackwardFromForward => "backward attention by its measured ratio to forward",
            Self::OtherRecurrence => "learned from linear attention of another recurrence",
            Self::OtherRecurrenceDecode => "learned from decoding steps of linear attention of another recurrence",
            Self::RatioOfRecurrences => "from Kimi Delta Attention by a ratio that two shapes on an H200 gave",
            Self::TimedWithHost => "timed with the host's launches: published first tokens are up to 3 times as fast",
            Self::OtherProvider => "kernel of another library than the one that runs",
            Self::OtherLayer => "MoE layer of another model than those that were timed in this format",
            Self::BackwardAssumed => "backward pass by an assumed ratio to forward",
            Self::Physics => "the nets were faster than peak or memory allow; that bound answers",
            Self::NotLearned => "roofline at reachable bandwidth, not learned",
            Self::Offload => "offloading assumed from bandwidths: no run that offloads was measured",
            Self::UnseenGpu => "no run with a model of this kind on a GPU of this generation was compared",
            Self::UnseenLength => "no run of a quarter of this length was compared",
            Self::UnseenFormat => "no run in this number format was compared",
            Self::UnseenNodes => "no run of one model over several nodes was compared",
            Self::Adapters => "adapters: constants are of steps that train all weights",
            Self::Drafts => "draft tokens: constants are of steps that make one token",
            Self::AdaptersOnAda => "adapters on Ada: published steps are up to twice as fast as predicted",
        }
    }
}

/// A set of caveats, small enough to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caveats(u32);

impl Caveats {
    /// Adds one.
    pub fn insert(&mut self, caveat: Caveat) {
        self.0 |= 1 << caveat as u32;
    }

    /// Adds one where `holds`.
    pub fn insert_if(&mut self, holds: bool, caveat: Caveat) {
        if holds {
            self.insert(caveat);
        }
    }

    /// Whether it is in the set.
    pub fn contains(self, caveat: Caveat) -> bool {
        self.0 & (1 << caveat as u32) != 0
    }

    /// Both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Caveat> {
        Caveat::ALL.into_iter().filter(move |&caveat| self.contains(caveat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_are_a_set_with_one_bit_each() {
        let mut all = Caveats::default();
        assert_eq!(all.iter().count(), 0);
        for caveat in Caveat::ALL {
            assert!(!all.contains(caveat));
            all.insert(caveat);
        }
        assert_eq!(all.iter().collect::<Vec<_>>(), Caveat::ALL);
        assert_eq!(all.union(Caveats::default()), all);
    }
}
