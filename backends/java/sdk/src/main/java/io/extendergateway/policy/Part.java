package io.extendergateway.policy;

import java.util.ArrayList;
import java.util.List;

/** A part of a pod or of a node that is read as a whole. */
interface Part {
  /** Its number in the contract, below 32. */
  int number();

  /** The bit of it in a set. */
  static int bit(Part part) {
    return 1 << part.number();
  }

  /** A set of all of these. */
  static int all(Part... parts) {
    int set = 0;
    for (Part part : parts) {
      set |= bit(part);
    }
    return set;
  }

  /** The numbers in a set, in ascending order. */
  static List<Integer> numbers(int set) {
    List<Integer> numbers = new ArrayList<>();
    for (int number = 1; number < 32; number++) {
      if ((set & 1 << number) != 0) {
        numbers.add(number);
      }
    }
    return numbers;
  }
}
