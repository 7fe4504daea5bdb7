//! What the features and digests of all families keep to.

use super::*;
use crate::gpu::Gpu;
use crate::ops::{
    Attention, Collective, CollectiveKind, Dtype, Gemm, IndexedAttention, LinearAttention, Memory, MemoryKind, OpKind,
    Pass,
};

fn row(op: &Op) -> (Seconds, Vec<f32>) {
    let gpu = GpuRates::new(Gpu::find("h200").unwrap(), Seconds::from_micros(2.5));
    let mut row = vec![f32::NAN; Family::of(op).width()];
    (gpu.features(op, &mut row), row)
}

fn gemm(m: u64, n: u64, k: u64) -> Op {
    Op::Gemm(Gemm::new(m, n, k))
}

fn attention(seq_q: u64, seq_kv: u64) -> Op {
    Op::Attention(Attention {
        kv_heads: 8,
        seq_kv,
        ..Attention::new(3, 24, seq_q, 80)
    })
}

fn named(op: &Op, name: &str) -> f32 {
    let features = &Family::of(op).schema().features;
    let at = features.iter().position(|feature| feature.name == name);
    row(op).1[at.unwrap_or_else(|| panic!("no feature {name}"))]
}

#[test]
fn every_family_names_each_feature_once_and_fills_it_with_a_number() {
    let norm = Memory {
        kind: MemoryKind::Embedding,
        rows: 333,
        cols: 80,
        pass: Pass::Backward,
        dtype: Dtype::Bf16,
    };
    let reduce = Collective::new(CollectiveKind::AllReduce, 1, 2);
    for op in [
        gemm(1, 1, 1),
        gemm(4096, 50257, 12288),
        attention(1, 4097),
        attention(777, 777),
        Op::Memory(norm),
        Op::Collective(reduce),
        Op::LinearAttention(LinearAttention::new(3, 8, 24, 777)),
        Op::LinearAttention(LinearAttention::new(3, 8, 24, 1)),
        Op::IndexedAttention(IndexedAttention::deepseek(3, 24, 777, 0)),
        Op::IndexedAttention(IndexedAttention::deepseek(3, 24, 1, 5000)),
    ] {
        let family = Family::of(&op);
        let names = family.schema().features.iter().map(|feature| &feature.name);
        let unique: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(unique.len(), family.width());
        let (reference, values) = row(&op);
        assert!(
            reference.secs() > 0.0 && values.iter().all(|value| value.is_finite()),
            "{op}"
        );
        let gpu = GpuRates::new(Gpu::find("h200").unwrap(), Seconds::from_micros(2.5));
        assert_eq!(gpu.reference(&op), reference, "{op}");
    }
}

#[test]
fn the_rows_of_shipped_nets_are_as_wide_as_ever_and_end_in_tiles() {
    let widths = [Family::Gemm, Family::Prefill, Family::Decode].map(Family::width);
    assert_eq!(widths, [118, 100, 79]);
    for family in Family::ALL {
        let schema = family.schema();
        for (place, feature) in schema.features.iter().enumerate() {
            let name = &feature.name;
            let aligns = name.starts_with("power_of_two");
            assert_eq!(schema.places(Role::Alignment).any(|at| at == place), aligns, "{name}");
            let tiled = name.contains("last_wave_idle") || name.contains("_waste_");
            assert!(!tiled || feature.role == Role::Tile, "{name}");
        }
        let first = schema.places(Role::Tile).next();
        let after = schema.features.iter().skip(first.unwrap_or(schema.features.len()));
        assert!(after.into_iter().all(|feature| feature.role == Role::Tile), "{family}");
    }
    let alignment: Vec<_> = Family::Gemm.schema().places(Role::Alignment).collect();
    assert_eq!(alignment, [14, 15, 16, 17]);
}

#[test]
fn waves_follow_the_textbook_example() {
    // 2304 x 4096 x 3328 in 256x128 tiles: 9 x 26 = 234 blocks; on 132 SMs 1.77 waves run as 2.
    let op = gemm(2304, 3328, 4096);
    assert!((named(&op, "ln_waves_256x128") - (234.0f32 / 132.0).ln()).abs() < 1e-6);
    assert!((named(&op, "last_wave_idle_256x128") - (2.0 * 132.0 / 234.0 - 1.0)).abs() < 1e-6);
    // 256 wide is 4 tiles of 128x128, 257 wide is 6 (NVIDIA's example of tile quantization).
    let waste = |n| named(&gemm(256, n, 1024), "ln_tile_waste_128x128");
    assert_eq!(waste(256), 0.0);
    assert!((waste(257) - (6.0f32 * 128.0 * 128.0 / (256.0 * 257.0)).ln()).abs() < 1e-6);
}

#[test]
fn rows_a_multiple_of_4096_elements_apart_are_known_where_nets_gain_by_it() {
    for (gpu, power) in [("h100", 12.0), ("mi355x", 12.0), ("a100", 7.0), ("v100", 7.0)] {
        let gpu = GpuRates::new(Gpu::find(gpu).unwrap(), Seconds::from_micros(2.5));
        let mut row = vec![f32::NAN; Family::Gemm.width()];
        gpu.features(&gemm(96, 8192, 4096), &mut row);
        assert_eq!(row[14..17], [5.0, power, power]);
    }
}

#[test]
fn the_reference_time_is_the_launch_term_plus_the_roofline() {
    let (reference, _) = row(&gemm(8192, 8192, 8192));
    let expected = 2.5 + 2.0 * 8192f64.powi(3) / 989.4e12 * 1e6;
    assert!((reference.micros() / expected - 1.0).abs() < 1e-3, "{reference}");
}

/// One feature as a formula writes it.
#[derive(Clone)]
enum Entry {
    Number(String, f64),
    Log(String, f64),
    Bins(String, f64),
    PowerOfTwo(String, u64, u32),
    Tile(String),
}

/// Keeps what formulas write, to be changed and written again.
#[derive(Default)]
struct Recorded(Vec<Entry>);

impl FeatureRow for Recorded {
    fn number(&mut self, name: &str, value: f64) {
        self.0.push(Entry::Number(name.to_owned(), value));
    }

    fn log(&mut self, name: &str, value: f64) {
        self.0.push(Entry::Log(name.to_owned(), value));
    }

    fn bins(&mut self, name: &str, size: f64) {
        self.0.push(Entry::Bins(name.to_owned(), size));
    }

    fn power_of_two(&mut self, name: &str, size: u64, largest: u32) {
        self.0.push(Entry::PowerOfTwo(name.to_owned(), size, largest));
    }

    fn tile(&mut self, tile: std::fmt::Arguments<'_>) {
        self.0.push(Entry::Tile(tile.to_string()));
    }
}

/// The digest of a family whose entries `change` has changed before they are described.
fn digest_after<F: Kernels>(change: &dyn Fn(&mut Vec<Entry>)) -> String {
    let features = |op: &Op, gpu: &GpuRates, row: &mut Description| {
        let mut recorded = Recorded::default();
        let reference = F::features(&F::shape(op).unwrap(), gpu, &mut recorded);
        change(&mut recorded.0);
        for entry in recorded.0 {
            match entry {
                Entry::Number(name, value) => row.number(&name, value),
                Entry::Log(name, value) => row.log(&name, value),
                Entry::Bins(name, size) => row.bins(&name, size),
                Entry::PowerOfTwo(name, size, largest) => {
                    row.power_of_two(&name, size, largest);
                }
                Entry::Tile(tile) => row.tile(format_args!("{tile}")),
            }
        }
        reference
    };
    Schema::of(&F::examples(), &features).digest
}

#[test]
fn a_changed_formula_or_order_changes_the_digest() {
    let mut digests = std::collections::BTreeSet::new();
    for family in Family::ALL {
        dispatch_family!(family, F => {
            let digest = &family.schema().digest;
            assert!(digests.insert(digest.clone()), "two families share a digest");
            assert_eq!(&digest_after::<F>(&|_| {}), digest);
            let entries = {
                let mut recorded = Recorded::default();
                let op = F::shape(&F::examples()[0]).unwrap();
                F::features(&op, &GpuRates::FIXED[0], &mut recorded);
                recorded.0
            };
            for place in 0..entries.len() {
                let scaled = digest_after::<F>(&|entries| match &mut entries[place] {
                    Entry::Number(_, value) => *value += 0.001,
                    Entry::Log(_, value) | Entry::Bins(_, value) => *value *= 1.001,
                    Entry::PowerOfTwo(_, size, _) => *size *= 2,
                    Entry::Tile(tile) => tile.push('x'),
                });
                assert_ne!(&scaled, digest, "{family}: entry {place}");
            }
            // Names as they were, the values of the first two the other way round.
            let swapped = digest_after::<F>(&|entries| {
                if let [Entry::Log(_, first), Entry::Log(_, second), ..] = &mut entries[..] {
                    std::mem::swap(first, second);
                }
            });
            assert_ne!(&swapped, digest, "{family}");
            let renamed = digest_after::<F>(&|entries| {
                if let Entry::Log(name, _) = &mut entries[0] {
                    name.push('x');
                }
            });
            assert_ne!(&renamed, digest, "{family}");
        });
    }
}

#[test]
fn digests_are_equal_on_every_machine() {
    let digests = Family::ALL.map(|family| family.schema().digest.as_str());
    let pinned = [
        "f8f0191d38128127",
        "43a7e66e9ed6bdc0",
        "af2374e61d4e583f",
        "297a377e6941f8d5",
        "0300d0900ca178f1",
        "b08c595c7d611a6e",
        "0f40176d5d191017",
        "17dd2a63dd134e18",
        "9b4169a77a80b874",
        "b2a4683ffed2f876",
        "9ea5aecd3b2eab14",
        "29588ac01b689380",
        "342e983af2299db2",
        "08f1879bf33f679e",
        "bff3a30a0937c206",
    ];
    assert_eq!(digests, pinned);
}

#[test]
fn every_kind_of_operator_has_its_family() {
    for kind in OpKind::ALL {
        let op = kind.smallest();
        assert!(Family::ALL.contains(&Family::of(&op)), "{op}");
    }
    let attention = |seq_q, head_dim, value_dim| {
        Op::Attention(Attention {
            seq_kv: 64,
            value_dim,
            ..Attention::new(1, 8, seq_q, head_dim)
        })
    };
    for (op, family) in [
        (attention(64, 128, 128), Family::Prefill),
        (attention(1, 128, 128), Family::Decode),
        (attention(64, 192, 128), Family::LatentPrefill),
        (attention(64, 576, 512), Family::AbsorbedPrefill),
        (attention(1, 576, 512), Family::LatentDecode),
        (attention(1, 192, 128), Family::LatentDecode),
    ] {
        assert_eq!(Family::of(&op), family, "{op}");
    }
    let pass = |pass, causal, seq_q| {
        Op::Attention(Attention {
            pass,
            causal,
            seq_kv: 64,
            ..Attention::new(1, 8, seq_q, 64)
        })
    };
    for (op, family) in [
        (pass(Pass::Forward, false, 64), Family::Bidirectional),
        (pass(Pass::Backward, false, 64), Family::PrefillBackward),
        (pass(Pass::Backward, true, 64), Family::PrefillBackward),
        (pass(Pass::Forward, false, 1), Family::Decode),
    ] {
        assert_eq!(Family::of(&op), family, "{op}");
    }
}
