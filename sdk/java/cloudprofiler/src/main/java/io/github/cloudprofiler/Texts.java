package io.github.cloudprofiler;

import java.nio.charset.StandardCharsets;

/** Converts texts to the bytes that the native library takes, and back. */
final class Texts {
    private Texts() {}

    /**
     * Returns a text's bytes, or null if there is none. A NUL would end the text early, so it
     * becomes a byte that the library accepts in no name, word or path.
     */
    static byte[] bytes(String text) {
        return text == null ? null : text.replace('\0', '\1').getBytes(StandardCharsets.UTF_8);
    }

    static String string(byte[] text, String otherwise) {
        return text == null ? otherwise : new String(text, StandardCharsets.UTF_8);
    }
}
