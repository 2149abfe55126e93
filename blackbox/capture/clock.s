// This file lets clock.go name a function of the runtime.
