// Compile-time options. A launcher defines the flags that it wants as 1 and leaves the others out; IS_SET() makes a
// flag a constant expression, so that kernels branch by `if constexpr` and by template parameters.
// Source: IS_ENABLED of Linux (include/linux/kconfig.h).
#pragma once

#define IS_SET(flag) IS_SET_VALUE(flag)
#define IS_SET_VALUE(value) IS_SET_PLACE(IS_SET_1_BECOMES_##value)
#define IS_SET_PLACE(place) IS_SET_SECOND(place true, false, 0)
#define IS_SET_SECOND(first, second, ...) second
// A place more pushes `true` to the second.
#define IS_SET_1_BECOMES_1 0,

template <bool isFirst, typename First, typename Second>
struct Choice {
  typedef First Type;
};

template <typename First, typename Second>
struct Choice<false, First, Second> {
  typedef Second Type;
};

template <bool isFirst, typename First, typename Second>
using Choose = typename Choice<isFirst, First, Second>::Type;
