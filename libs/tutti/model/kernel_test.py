"""The signature names what decides the bits."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tutti.model.head import sum_type
from tutti.model.kernel import KernelSignature, kernel_signature
from tutti.model.spec import StepSpec

CPU = torch.device("cpu")


def test_it_is_the_same_in_one_process_and_comes_back_from_its_record() -> None:
    signature = kernel_signature(StepSpec(), CPU)
    assert signature == kernel_signature(StepSpec(), CPU)
    assert KernelSignature.from_dict(signature.to_dict()).digest() == signature.digest()


def test_threads_and_compilation_are_part_of_it() -> None:
    specs = [StepSpec(), StepSpec(threads=2), StepSpec(compile=True)]
    assert len({kernel_signature(spec, CPU).digest() for spec in specs}) == 3


def test_a_switch_of_the_libraries_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_signature(StepSpec(), CPU)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    after = kernel_signature(StepSpec(), CPU)
    assert after == replace(before, switches=after.switches)
    assert "MKL_CBWR=COMPATIBLE" in after.switches


def test_the_type_of_the_heads_sum_is_part_of_it_where_it_is_not_that_of_the_matrix() -> None:
    signature = kernel_signature(StepSpec(), CPU)
    assert "head_sum" not in signature.to_dict()
    in_bf16 = replace(signature, head_sum=sum_type(torch.bfloat16))
    assert in_bf16.digest() != signature.digest()
    assert KernelSignature.from_dict(in_bf16.to_dict()).head_sum == "float32"


def test_it_says_nothing_about_whose_machine_it_is() -> None:
    text = str(kernel_signature(StepSpec(), CPU).to_dict())
    assert platform.node() not in text.split("'")
    assert str(Path.home()) not in text
