//! The only module that draws random numbers, from the operating system.

/// 64 random bits.
pub fn bits_64() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    // The fixed version and variant bits of each half meet random bits of the other.
    high ^ low
}

/// 128 bits, all but six of them random: those of a version 4 UUID.
pub fn bits_128() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}
