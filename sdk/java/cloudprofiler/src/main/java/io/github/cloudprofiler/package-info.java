/**
 * Cloudprofiler for Java: open a {@link io.github.cloudprofiler.Channel}, log events, close it.
 * {@link io.github.cloudprofiler.Ids} makes tuple ids.
 */
package io.github.cloudprofiler;
