package io.github.cloudprofiler.agent;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/** A class loader with the jars of one version of an engine. The class path of the tests may
 * contain another version of the same engine. */
class EngineJars extends URLClassLoader {
    EngineJars(String... jars) throws IOException {
        super(urls(jars), EngineJars.class.getClassLoader());
    }

    private static URL[] urls(String... jars) throws IOException {
        URL[] urls = new URL[jars.length];
        for (int i = 0; i < jars.length; i++) {
            urls[i] = Path.of(System.getProperty("engines"), jars[i] + ".jar").toUri().toURL();
        }
        return urls;
    }

    @Override
    public URL getResource(String name) {
        URL own = findResource(name);
        return own == null ? super.getResource(name) : own;
    }
}
