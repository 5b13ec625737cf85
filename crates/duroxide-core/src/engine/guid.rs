//! Random ids without a source of randomness: the turn brings the random bits.

/// A version-4 UUID from the turn's entropy and the event's id, which is unique within the turn.
pub(super) fn guid(entropy: u128, event_id: u64) -> String {
    let salt = mix(event_id);
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("the bits are masked to 64");
    let high = mix(half(entropy >> 64) ^ salt);
    let low = mix(half(entropy) ^ salt.rotate_left(32));
    let bits = (u128::from(high) << 64) | u128::from(low);
    let versioned = (bits & !(0xf << 76)) | (0x4 << 76);
    let variant = (versioned & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{variant:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The finaliser of SplitMix64: every input bit changes every output bit with probability one half.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
