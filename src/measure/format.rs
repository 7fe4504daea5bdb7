//! Conversion between numbers and the bits of a device's number formats.

use crate::ops::Dtype;
use float8::F8E4M3;
use half::{bf16, f16};

/// Encodes a number into the low bits of the result, rounded to nearest even and saturated at the
/// largest finite number; infinities stay, except in fp8, which has none and saturates.
pub fn encode(dtype: Dtype, value: f32) -> u32 {
    let within = |most: f32| {
        if value.is_infinite() {
            value
        } else {
            value.clamp(-most, most)
        }
    };
    match dtype {
        Dtype::Fp16 => f16::from_f32(within(f16::MAX.to_f32())).to_bits().into(),
        Dtype::Bf16 => bf16::from_f32(within(bf16::MAX.to_f32())).to_bits().into(),
        Dtype::Fp8 => F8E4M3::from_f32(value).to_bits().into(),
        _ => value.to_bits(),
    }
}

/// Decodes the bits of a number.
pub fn decode(dtype: Dtype, bits: u32) -> f32 {
    match dtype {
        Dtype::Fp16 => f16::from_bits(bits as u16).to_f32(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).to_f32(),
        Dtype::Fp8 => F8E4M3::from_bits(bits as u8).to_f32(),
        _ => f32::from_bits(bits),
    }
}

/// Rounds a number to a format; tf32 is stored in 32 bits and rounded inside the GEMM.
pub fn rounded(dtype: Dtype, value: f32) -> f32 {
    decode(dtype, encode(dtype, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_their_known_bits() {
        for (dtype, value, bits) in [
            (Dtype::Fp16, 1.0, 0x3c00),
            (Dtype::Fp16, -2.5, 0xc100),
            (Dtype::Fp16, 65504.0, 0x7bff),
            (Dtype::Fp16, 5.960_464_5e-8, 0x0001),
            (Dtype::Fp16, f32::NEG_INFINITY, 0xfc00),
            (Dtype::Bf16, 1.0, 0x3f80),
            (Dtype::Bf16, -3.140_625, 0xc049),
            (Dtype::Bf16, f32::NEG_INFINITY, 0xff80),
            (Dtype::Fp8, 1.0, 0x38),
            (Dtype::Fp8, 448.0, 0x7e),
            (Dtype::Fp8, -0.015_625, 0x88),
            (Dtype::Fp8, 1e9, 0x7e),
            (Dtype::Fp8, f32::INFINITY, 0x7e),
            (Dtype::Fp32, 1.0, 0x3f80_0000),
        ] {
            assert_eq!(encode(dtype, value), bits, "{dtype:?} {value}");
            if value < 1e8 {
                assert_eq!(decode(dtype, bits), value, "{dtype:?} {bits:x}");
            }
        }
    }

    #[test]
    fn ties_round_to_even() {
        // Between 1 and 1 + 2^-7 in bf16, and between 1 + 2^-7 and 1 + 2^-6.
        assert_eq!(rounded(Dtype::Bf16, 1.0 + 0.003_906_25), 1.0);
        assert_eq!(rounded(Dtype::Bf16, 1.0 + 3.0 * 0.003_906_25), 1.0 + 4.0 * 0.003_906_25);
    }

    #[test]
    fn every_finite_number_of_a_format_survives_a_round_trip() {
        for (dtype, width) in [(Dtype::Fp16, 16), (Dtype::Bf16, 16), (Dtype::Fp8, 8)] {
            for bits in 0..1u32 << width {
                let value = decode(dtype, bits);
                if value.is_finite() {
                    assert_eq!(encode(dtype, value), bits, "{dtype:?} {bits:x} {value}");
                }
            }
        }
    }
}
