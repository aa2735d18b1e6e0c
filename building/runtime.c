/* The functions of numba's runtime that its loops call: counted memory, the reshape of contiguous arrays, frexp and
   nextafter. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct counted { /* numba's layout: numba/core/runtime/nrtdynmod.py */
    size_t references;
    void *destructor, *destructor_argument, *data;
    size_t size;
};

struct counted *NRT_MemInfo_alloc_aligned(size_t size, uint32_t alignment) {
    if (size > SIZE_MAX / 2) return NULL;
    struct counted *memory = malloc(sizeof *memory + size + alignment);
    if (!memory) return NULL;
    uintptr_t first = (uintptr_t)(memory + 1);
    void *data = (void *)((first + alignment - 1) / alignment * alignment);
    *memory = (struct counted){1, NULL, NULL, data, size};
    return memory;
}

struct counted *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 32); }
void NRT_MemInfo_call_dtor(struct counted *memory) { free(memory); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *memory) { free(memory); }

/* Every array that a loop reshapes is contiguous and row-major, so nothing is copied. */
int numba_attempt_nocopy_reshape(intptr_t axes, const intptr_t *lengths, const intptr_t *strides, intptr_t new_axes,
                                 const intptr_t *new_lengths, intptr_t *new_strides, intptr_t size, int fortran) {
    intptr_t step = size;
    for (intptr_t k = axes - 1; k >= 0; step *= lengths[k--])
        if (lengths[k] > 1 && strides[k] != step) return 0;
    step = size;
    for (intptr_t k = new_axes - 1; k >= 0; step *= new_lengths[k--]) new_strides[k] = step;
    return !fortran;
}

double numba_frexp(double x, int *exponent) {
    *exponent = 0;
    return isfinite(x) && x != 0 ? frexp(x, exponent) : x;
}

double numba_nextafter(double x, double towards) { return nextafter(x, towards); }

/* Return whether this processor has the instructions of the loops. This function is compiled for every processor. */
int runs_here(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports(LEVEL) != 0;
#else
    return 1; /* LEVEL is `generic`, which is the architecture's baseline */
#endif
}
