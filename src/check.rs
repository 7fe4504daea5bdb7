//! What a broken sizing rule costs, and the nearest shape that mends it.
