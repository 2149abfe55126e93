package library

// classMakers are all classes by their PeerSim names.
var classMakers map[string]Class

func init() {
	classMakers = map[string]Class{
		// Protocols.
		"IdleProtocol":    newIdle,
		"AverageFunction": newAverageFunction,
		"MaxFunction":     newMaxFunction,
		"AverageED":       newAverageED,
		"InfectionED":     newInfection,
		"SimpleNewscast":  newNewscast,

		// Transports.
		"UniformRandomTransport": newUniform,
		"UnreliableTransport":    newUnreliable,
		"E2ETransport":           newE2E,
		"MatrixTransport":        newMatrix,
		"CoordinateTransport":    newCoordinates,
		"TraceTransport":         newTrace,

		// Initialisers.
		"WireKOut":                    newKOut,
		"WireRegularRandom":           newKOut,
		"WireRingLattice":             newRing,
		"WireWS":                      newWS,
		"WireStar":                    newStar,
		"WireRegRootedTree":           newTree,
		"WireScaleFreeBA":             newBA,
		"WireFromFile":                newFromFile,
		"RandNI":                      newRandNI,
		"StarNI":                      newStarNI,
		"LinearDistribution":          newLinear,
		"UniformDistribution":         newUniformValues,
		"PeakDistribution":            newPeak,
		"PeakDistributionInitializer": newPeak,
		"CDScheduler":                 newScheduler,
		"InfectionSeed":               newInfectionSeed,
		"KingParser":                  newKing,
		"UniformRouterAssignment":     newRouters,

		// Dynamics.
		"Shuffle":            newShuffle,
		"DynamicNetwork":     newDynamic,
		"OscillatingNetwork": newOscillating,

		// Observers.
		"AverageObserver":      newAverageObserver,
		"SingleValueObserver":  newValueObserver,
		"InfectionObserver":    newInfectionObserver,
		"DegreeStats":          newDegreeStats,
		"ConnectivityObserver": newConnectivity,
		"Clustering":           newClustering,
	}
}
