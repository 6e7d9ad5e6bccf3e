"""`resnet50` of the same inputs and outputs, with weights that are not trained."""

import enum

import torch


class ResNet50_Weights(enum.Enum):
    IMAGENET1K_V2 = 1


def resnet50(weights=None):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, stride=4), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(128, 1000)
    )
