package io.github.cloudprofiler;

/**
 * What Java knows about the present handler. A rule does not change: when the ring's switching word
 * differs from that of the rule, another rule takes its place.
 */
final class Rule {
    /** The rule of a channel without a ring, whose switching word is 0. */
    static final Rule NOTHING = new Rule(0, 0, 0, 1);

    /** The numbers of the handlers null and xoy, as in ring/FORMAT.md. */
    private static final long NULL = 0;
    private static final long XOY = 5;

    final long word;

    // An event goes to the native library if id & mask < below, and id mod modulus < rest. A
    // handler that only the library knows has mask = 0 and below = 1, so that every event goes
    // there. If y of the handler xoy is a power of two, the mask alone decides, and the field
    // modulus is 0.
    private final long mask;
    private final long below;
    private final long modulus;
    private final long rest;
    private final long reciprocal;

    Rule(long word, long kind, long below, long modulus) {
        this.word = word;
        boolean some = kind == XOY && Long.compareUnsigned(below, modulus) < 0;
        boolean none = kind == NULL || kind == XOY && below == 0;
        boolean masks = some && Long.bitCount(modulus) == 1;
        boolean divides = some && !masks;
        mask = masks ? modulus - 1 : 0;
        this.below = none ? 0 : masks ? below : 1;
        this.modulus = divides ? modulus : 0;
        rest = divides ? below : 0;
        reciprocal = divides ? Long.divideUnsigned(-1, modulus) : 0;
    }

    /** Returns whether no event goes to the native library. */
    boolean idle() {
        return below == 0;
    }

    /**
     * Returns whether an event with this id goes to the native library. It does not branch to
     * another method. If such a branch was rarely taken on other channels, the JIT would not inline
     * that method. Math.multiplyHigh, which computes the high half of a product, is an intrinsic of
     * the JIT.
     */
    boolean keeps(long id) {
        if ((id & mask) >= below) { // neither is negative
            return false;
        }
        long m = modulus;
        if (m == 0) {
            return true;
        }
        // id mod m without a division: the quotient is right or one too small, as in
        // sdk/c/src/log.c. Java 17 itself has only the high half of a signed product.
        long r = reciprocal;
        long quotient = Math.multiplyHigh(id, r) + (id >> 63 & r) + (r >> 63 & id);
        long v = id - quotient * m;
        v = Long.compareUnsigned(v, m) < 0 ? v : v - m;
        return Long.compareUnsigned(v, rest) < 0;
    }
}
