package analysis

// In a log of pauses, a number says for which of its operations the JVM paused. These are the
// numbers of the first operation in each of the two lists below; the others follow in order.
// TestPauseKindsAreThoseOfTheFormat compares both lists with the description of the log's format.
const (
	firstCollection = 1
	firstOther      = 129
)

// collections are the JVM's operations that collect garbage, by number from firstCollection on.
var collections = []string{
	"G1CollectForAllocation", "G1CollectFull", "G1TryInitiateConcMark", "G1PauseRemark",
	"G1PauseCleanup", "G1PauseConcurrent", "ParallelGCFailedAllocation", "ParallelGCSystemGC",
	"ParallelCollectForAllocation", "ParallelGCCollect", "GenCollectForAllocation",
	"GenCollectFull", "SerialCollectForAllocation", "SerialGCCollect",
	"CollectForMetadataAllocation", "CollectForAllocation", "ZMarkStart", "ZMarkEnd",
	"ZRelocateStart", "ZVerify", "ZMarkStartYoung", "ZMarkStartYoungAndOld", "ZMarkEndYoung",
	"ZMarkEndOld", "ZRelocateStartYoung", "ZRelocateStartOld", "ZVerifyOld", "XMarkStart",
	"XMarkEnd", "XRelocateStart", "XVerify", "ShenandoahInitMark", "ShenandoahFinalMarkStartEvac",
	"ShenandoahInitUpdateRefs", "ShenandoahFinalUpdateRefs", "ShenandoahFinalRoots",
	"ShenandoahDegeneratedGC", "ShenandoahFullGC",
}

// otherOperations are the JVM's other operations, by number from firstOther on.
var otherOperations = []string{
	"Cleanup", "ForceSafepoint", "ClearICs", "ICBufferFull", "CleanClassLoaderDataMetaspaces",
	"EnableBiasedLocking", "BulkRevokeBias", "DeoptimizeFrame", "RedefineClasses", "ThreadDump",
	"PrintThreads", "FindDeadlocks", "GetAllStackTraces", "GetThreadListStackTraces", "HeapDumper",
	"GC_HeapInspection", "HeapIterateOperation", "HeapWalkOperation", "ChangeBreakpoints",
	"ChangeSingleStep", "G1SendHeapRegionInfoEvents", "ShenandoahSendHeapRegionInfoEvents",
	"GC_SendObjectCountEvent", "RehashStringTable", "RehashSymbolTable", "ReinitializeMDO", "Exit",
	"Halt",
}

func isCollection(kind uint8) bool { return kind >= firstCollection && kind < firstOther }

// pauseName is the JVM's name for an operation.
func pauseName(kind uint8) string {
	switch k := int(kind); {
	case k >= firstOther && k-firstOther < len(otherOperations):
		return otherOperations[k-firstOther]
	case k >= firstCollection && k-firstCollection < len(collections):
		return collections[k-firstCollection]
	case isCollection(kind):
		return "another collection"
	}
	return "other"
}
