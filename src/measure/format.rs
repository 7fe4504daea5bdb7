//! Conversion between numbers and the bits of a device's number formats.

use crate::ops::Dtype;

/// The layout of a binary floating-point format below 32 bits.
struct Layout {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The largest finite number.
    largest: f64,
}

/// Layouts of the formats below 32 bits; fp8 is E4M3 (OCP 8-bit floating point, 1.0).
const fn layout(dtype: Dtype) -> Option<Layout> {
    let (exponent_bits, mantissa_bits, largest) = match dtype {
        Dtype::Fp16 => (5, 10, 65504.0),
        Dtype::Bf16 => (8, 7, 3.389_531_389_251_535_5e38),
        Dtype::Fp8 => (4, 3, 448.0),
        _ => return None,
    };
    Some(Layout {
        exponent_bits,
        mantissa_bits,
        largest,
    })
}

/// Encodes a number into the low bits of the result, rounded to nearest even and saturated at the
/// largest finite number; infinities stay, except in fp8, which has none and saturates.
pub fn encode(dtype: Dtype, value: f32) -> u32 {
    let Some(layout) = layout(dtype) else {
        return value.to_bits();
    };
    let width = 1 + layout.exponent_bits + layout.mantissa_bits;
    let sign = u32::from(value.is_sign_negative()) << (width - 1);
    let all_ones = (1 << layout.exponent_bits) - 1;
    if value.is_nan() {
        return (all_ones << layout.mantissa_bits) | ((1 << layout.mantissa_bits) - 1);
    }
    if value.is_infinite() && dtype != Dtype::Fp8 {
        return sign | (all_ones << layout.mantissa_bits);
    }
    let magnitude = f64::from(value.abs()).min(layout.largest);
    let bias = (1 << (layout.exponent_bits - 1)) - 1;
    // Below the least normal exponent the spacing stays that of the least normal number.
    let exponent = (exponent_of(magnitude)).max(1 - bias);
    let spacing = power_of_two(exponent - layout.mantissa_bits as i32);
    // Counting in spacings from the bottom of this exponent carries into the next one by itself.
    let steps = (magnitude / spacing).round_ties_even() as u32;
    let below = ((exponent + bias - 1) as u32) << layout.mantissa_bits;
    sign | (below + steps)
}

/// Decodes the bits of a number.
pub fn decode(dtype: Dtype, bits: u32) -> f32 {
    let Some(layout) = layout(dtype) else {
        return f32::from_bits(bits);
    };
    let all_ones = (1u32 << layout.exponent_bits) - 1;
    let exponent = (bits >> layout.mantissa_bits) & all_ones;
    let mantissa = bits & ((1 << layout.mantissa_bits) - 1);
    let negative = bits >> (layout.exponent_bits + layout.mantissa_bits) & 1 == 1;
    let sign = if negative { -1.0 } else { 1.0 };
    let full = (1u32 << layout.mantissa_bits) - 1;
    if dtype == Dtype::Fp8 && exponent == all_ones && mantissa == full {
        return f32::NAN;
    }
    if dtype != Dtype::Fp8 && exponent == all_ones {
        return if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
    }
    let bias = (1 << (layout.exponent_bits - 1)) - 1;
    let hidden = if exponent == 0 { 0 } else { 1 << layout.mantissa_bits };
    let power = exponent.max(1) as i32 - bias - layout.mantissa_bits as i32;
    sign * (f64::from(hidden + mantissa) * power_of_two(power)) as f32
}

/// Rounds a number to a format; tf32 is stored in 32 bits and rounded inside the GEMM.
pub fn rounded(dtype: Dtype, value: f32) -> f32 {
    decode(dtype, encode(dtype, value))
}

/// `2^exponent` for exponents of normal `f64`; those of the formats are from -133 to 120. Faster than [`f64::powi`].
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Floor of the binary logarithm; of zero, an exponent below that of every format.
fn exponent_of(magnitude: f64) -> i32 {
    match ((magnitude.to_bits() >> 52) & 0x7ff) as i32 {
        0 => -1023,
        biased => biased - 1023,
    }
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
