package io.github.cloudprofiler.agent;

import java.util.List;

/**
 * The numbers of the operations for which a JVM stops. FORMAT.md of this module lists them. Numbers
 * are only added, at the end of either list.
 */
final class PauseKinds {
    /** The garbage collections. The first one has the number 1. */
    static final List<String> COLLECTIONS = List.of(
        "G1CollectForAllocation", "G1CollectFull", "G1TryInitiateConcMark", "G1PauseRemark",
        "G1PauseCleanup", "G1PauseConcurrent", "ParallelGCFailedAllocation", "ParallelGCSystemGC",
        "ParallelCollectForAllocation", "ParallelGCCollect", "GenCollectForAllocation",
        "GenCollectFull", "SerialCollectForAllocation", "SerialGCCollect",
        "CollectForMetadataAllocation", "CollectForAllocation", "ZMarkStart", "ZMarkEnd",
        "ZRelocateStart", "ZVerify", "ZMarkStartYoung", "ZMarkStartYoungAndOld", "ZMarkEndYoung",
        "ZMarkEndOld", "ZRelocateStartYoung", "ZRelocateStartOld", "ZVerifyOld", "XMarkStart",
        "XMarkEnd", "XRelocateStart", "XVerify", "ShenandoahInitMark",
        "ShenandoahFinalMarkStartEvac", "ShenandoahInitUpdateRefs", "ShenandoahFinalUpdateRefs",
        "ShenandoahFinalRoots", "ShenandoahDegeneratedGC", "ShenandoahFullGC");

    /** Others, from 129 on. */
    static final List<String> OTHERS = List.of(
        "Cleanup", "ForceSafepoint", "ClearICs", "ICBufferFull", "CleanClassLoaderDataMetaspaces",
        "EnableBiasedLocking", "BulkRevokeBias", "DeoptimizeFrame", "RedefineClasses", "ThreadDump",
        "PrintThreads", "FindDeadlocks", "GetAllStackTraces", "GetThreadListStackTraces",
        "HeapDumper", "GC_HeapInspection", "HeapIterateOperation", "HeapWalkOperation",
        "ChangeBreakpoints", "ChangeSingleStep", "G1SendHeapRegionInfoEvents",
        "ShenandoahSendHeapRegionInfoEvents", "GC_SendObjectCountEvent", "RehashStringTable",
        "RehashSymbolTable", "ReinitializeMDO", "Exit", "Halt");

    static final int UNKNOWN = 0;
    static final int FIRST_COLLECTION = 1;
    static final int FIRST_OTHER = 129;

    private PauseKinds() {}

    /** Returns the number of an operation, by the name that the JVM prints. */
    static int of(String operation) {
        int i = COLLECTIONS.indexOf(operation);
        if (i >= 0) {
            return FIRST_COLLECTION + i;
        }
        i = OTHERS.indexOf(operation);
        return i >= 0 ? FIRST_OTHER + i : UNKNOWN;
    }
}
